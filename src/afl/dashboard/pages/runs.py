"""The list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, fragment, page
from afl.dashboard.wording import with_query
from afl.kernel.errors import InputError
from afl.operations.parameters import RUN_STATES
from afl.operations.program.library import list_workflows
from afl.operations.run.run_counts import count_states
from afl.operations.run.run_list import list_runs
from afl.operations.run.runs import UnknownRun
from afl.operations.spans import read_span

_PAGE = 50
STATES = ("running", "retrying", "waiting", "paused", "failed", "canceled", "completed", "created")
SPANS = {
    "1h": "last hour",
    "24h": "last 24 hours",
    "7d": "last 7 days",
    "30d": "last 30 days",
}


@dataclass(frozen=True)
class Wanted:
    """Which runs somebody wants to see."""

    state: str = ""
    workflow: str = ""
    text: str = ""
    span: str = ""
    tag: str = ""
    longer: str = ""
    cost: str = ""
    before: str = ""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Wanted:
        state, span = given.get("state", ""), given.get("span", "")
        tag = given.get("tag", "").strip()
        return cls(
            state=state if state in RUN_STATES else "",
            workflow=given.get("workflow", ""),
            text=given.get("text", "").strip(),
            span=span if span in SPANS else "",
            tag=tag if "=" in tag else "",
            longer=_span(given.get("longer", "")),
            cost=_amount(given.get("cost", "")),
            before=given.get("before", ""),
        )

    def url(self, path: str = "/runs", **changes: str) -> str:
        """The page that shows them, with some of it changed; another question begins at its newest run."""
        values = {
            "state": self.state,
            "workflow": self.workflow,
            "text": self.text,
            "span": self.span,
            "tag": self.tag,
            "longer": self.longer,
            "cost": self.cost,
            **changes,
        }
        return with_query(path, **values)

    @property
    def is_anything(self) -> bool:
        """Whether any run will do."""
        return self == replace(Wanted(), before=self.before)

    @property
    def query(self) -> dict[str, Any]:
        """As operations take it."""
        return {
            "state": self.state,
            "workflow": self.workflow,
            "text": self.text,
            "within": self.span,
            "tags": [self.tag] if self.tag else [],
            "longer_than": self.longer,
            "min_cost": float(self.cost or 0),
        }


def _span(text: str) -> str:
    """A span of time; nothing if it is none."""
    try:
        return text.strip() if text and read_span(text) else ""
    except InputError:
        return ""


def _amount(text: str) -> str:
    """An amount of money; nothing if it is none."""
    try:
        return text.strip() if text and 0 < float(text) < 1e9 else ""
    except ValueError:
        return ""


async def runs(request: Request) -> Response:
    wanted = Wanted.of(request.query_params)
    known = await ask(request, list_workflows)
    names = sorted({each.name for each in known} | ({wanted.workflow} if wanted.workflow else set()))
    shown = await _shown(request, wanted)
    context = {**shown, "counts": await ask(request, count_states)}
    return await page(
        request, "runs.html", active="runs", states=STATES, spans=SPANS, workflows=names, **context
    )


async def runs_list(request: Request) -> Response:
    return await fragment(
        request, "_runs_list.html", **await _shown(request, Wanted.of(request.query_params))
    )


async def states(request: Request) -> Response:
    """The chips of the states with their counts."""
    wanted = Wanted.of(request.query_params)
    counts = await ask(request, count_states)
    return await fragment(request, "_runs_states.html", wanted=wanted, states=STATES, counts=counts)


async def _shown(request: Request, wanted: Wanted) -> dict[str, Any]:
    query = {**wanted.query, "limit": _PAGE}
    try:
        found = await ask(request, list_runs, **query, before=wanted.before)
    except UnknownRun:  # the page began behind a run that is gone by now
        found = await ask(request, list_runs, **query)
    return {
        "wanted": wanted,
        "runs": found.runs,
        "first": wanted.url() if wanted.before else "",
        "next": wanted.url(before=found.next) if found.next else "",
        "source": wanted.url("/runs/fragment/list", before=wanted.before),
    }


routes = [
    Route("/runs", runs),
    Route("/runs/fragment/list", runs_list),
    Route("/runs/fragment/states", states),
]
