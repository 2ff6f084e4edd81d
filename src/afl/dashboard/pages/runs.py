"""The list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, fragment, page
from afl.dashboard.wording import with_query
from afl.kernel.errors import InputError
from afl.operations.program.library import list_workflows
from afl.operations.run.run_counts import count_states
from afl.operations.run.run_list import RunPage, list_runs
from afl.operations.run.runs import UnknownRun

_PAGE = 50
_MOST_DOLLARS = 1e9
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
        """As it is written; what does not fit is refused when runs are looked for."""
        return cls(**{each.name: given.get(each.name, "").strip() for each in fields(cls)})

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
            "min_cost": _dollars(self.cost),
        }


def _dollars(text: str) -> float:
    """An amount of money; InputError if it is none."""
    with suppress(ValueError):
        if 0 <= (amount := float(text or 0)) < _MOST_DOLLARS:
            return amount
    raise InputError(f"a cost is a number of US dollars such as 0.50, got {text!r}")


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


async def _found(request: Request, query: dict[str, Any], before: str) -> RunPage:
    try:
        return await ask(request, list_runs, **query, before=before)
    except UnknownRun:  # the page began behind a run that is gone by now
        return await ask(request, list_runs, **query)


async def _shown(request: Request, wanted: Wanted) -> dict[str, Any]:
    problem = ""
    try:
        found = await _found(request, {**wanted.query, "limit": _PAGE}, wanted.before)
    except InputError as error:  # a filter is not written as it should be
        found, problem = RunPage([], ""), str(error)
    return {
        "wanted": wanted,
        "problem": problem,
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
