"""Lists of runs in SQL: by whatever index finds the fewest, and what their open steps wait for.

A list never reads all runs for a few: what is asked for selects some ids by one index, and the rest is looked at in
those alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.database import Query
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence.run_lists import OpenWork, Waits
from afl.runtime.persistence.runs import ANY_RUN, RunFilter
from afl.runtime.stores.search_words import words_in
from afl.runtime.stores.sql_store.rows import run_from
from afl.runtime.stores.sql_store.search import SearchTables
from afl.runtime.stores.sql_store.tables import LAST_CHARACTER, Q, via_range
from afl.runtime.types import WorkflowId

_LATEST = 2**62  # after every time
_MANY = 5_000  # so many ids are looked at together; more than that, and no filter is selective
_FIRST = 200
_NEWEST = 10_000
_OPEN = (RunnerState.CREATED, RunnerState.RUNNING)
_ELSEWHERE = {Waits.PERSON: "human", Waits.SIGNAL: "signal", Waits.RUN: "run"}
_WAITING = {
    Waits.TIMER: Q.runs_waiting_timer,
    Waits.SLOT: Q.runs_waiting_slot,
    Waits.RETRY: Q.runs_waiting_retry,
    Waits.AGENT: Q.runs_waiting_agent,
    Waits.BUDGET: Q.runs_waiting_budget,
}


class RunListTables(SearchTables):
    """`find_runs` of the RunStore protocol, and the RunListStore protocol."""

    get_run: Callable[[WorkflowId], RunDefinition | None]

    def find_runs(self, wanted: RunFilter = ANY_RUN) -> list[RunDefinition]:
        start = self.get_run(WorkflowId(wanted.before)) if wanted.before else None
        if wanted.before and start is None:
            return []
        asked = _asked(wanted, start.created if start is not None else _LATEST)
        if wanted.text:
            return self._with_text(wanted, asked)
        if wanted.prefix and not wanted.waits:
            return self._read(Q.find_runs_named, asked)
        few = self._few(wanted)
        if few is not None:
            return self._among(asked, few)
        if wanted.workflow or (wanted.state and wanted.state not in _OPEN):
            return self._along(asked)
        return self._read(Q.find_runs, asked)

    def _read(self, query: Query, asked: dict[str, Any]) -> list[RunDefinition]:
        return [run_from(row) for row in self.database.select(query, **asked)]

    def _among(self, asked: dict[str, Any], ids: Sequence[str]) -> list[RunDefinition]:
        return self._read(Q.find_runs_among, {**asked, "ids": list(ids)}) if ids else []

    def _with_text(self, wanted: RunFilter, asked: dict[str, Any]) -> list[RunDefinition]:
        """Those that have the words of the text; if none has, those of the newest that contain it anywhere."""
        few = self._few(wanted) if wanted.waits else None
        if self.has_search and words_in(wanted.text):
            self.catch_up()
            found: list[RunDefinition] = []
            seen: set[str] = set()
            for ids in self.found_runs(wanted.text, _MANY):
                chosen = sorted(({*ids} if few is None else {*ids} & {*few}) - seen)
                seen.update(ids)
                found += self._among({**asked, "text": "", "limit": asked["limit"] - len(found)}, chosen)
                if len(found) >= asked["limit"]:
                    break
            if seen:
                return found
        if few is not None:
            return self._among(asked, few)
        oldest = self.database.select(Q.nth_newest, number=_NEWEST)
        since = max(wanted.since, oldest[0]["created"]) if oldest else wanted.since
        return self._read(Q.find_runs_named if wanted.prefix else Q.find_runs, {**asked, "since": since})

    def _few(self, wanted: RunFilter) -> list[str] | None:
        """The runs that one of the filters leaves; None if each of them leaves many."""
        if wanted.waits:
            return list({run for kind in wanted.waits for run in self._waiting(kind)})
        asked: list[tuple[Query, dict[str, Any]]] = [(Q.runs_tagged, {"tag": tag}) for tag in wanted.tags]
        if wanted.state in _OPEN:
            asked.append((Q.runs_open, {"state": wanted.state}))
        if wanted.cost_from:
            asked.append((Q.runs_by_cost, {"at_least": _billionths(wanted.cost_from), "at_most": _LATEST}))
        for query, given in asked:
            found = self._ids(query, limit=_MANY + 1, **given)
            if len(found) <= _MANY:
                return found
        return self._long_ones(wanted) if wanted.longer else None

    def _long_ones(self, wanted: RunFilter) -> list[str] | None:
        """Those that took so long, and those that go on; None if these are many."""
        found = self._ids(Q.runs_by_duration, at_least=wanted.longer, at_most=_LATEST, limit=_MANY + 1)
        for state in _OPEN if len(found) <= _MANY else ():
            found += self._ids(Q.runs_open, state=state, limit=_MANY + 1)
        paused = {"state": RunnerState.PAUSED, "latest": _LATEST, "behind": LAST_CHARACTER}
        found += self._ids(Q.runs_in_state, limit=_MANY + 1, **paused) if len(found) <= _MANY else []
        return found if len(found) <= _MANY else None

    def _waiting(self, kind: str) -> list[str]:
        if kind in _ELSEWHERE:
            return self._ids(Q.runs_waiting_elsewhere, **via_range(_ELSEWHERE[kind]))
        return self._ids(_WAITING[kind])

    def _along(self, asked: dict[str, Any]) -> list[RunDefinition]:
        """The newest ones along the index of a workflow, or of a state, until there are enough."""
        found: list[RunDefinition] = []
        for ids in self._chunks(asked):
            found += self._among({**asked, "limit": asked["limit"] - len(found)}, ids)
            if len(found) >= asked["limit"]:
                break
        return found

    def _chunks(self, asked: dict[str, Any]) -> Iterator[list[str]]:
        """Ids, newest first, more each time."""
        query = Q.runs_of_workflow if asked["workflow"] else Q.runs_in_state
        value = {name: asked[name] for name in ("workflow", "state") if name in query.parameters}
        latest, behind, limit = asked["latest"], asked["before"] or LAST_CHARACTER, _FIRST
        while ids := self._ids(query, **value, latest=latest, behind=behind, limit=limit):
            yield ids
            last = self.get_run(WorkflowId(ids[-1])) if len(ids) == limit else None
            if last is None:
                return
            latest, behind, limit = last.created, last.workflow_id, _MANY

    def _ids(self, query: Query, **asked: Any) -> list[str]:
        return [row["workflow_id"] for row in self.database.select(query, **asked)]

    def get_open_work(self, workflow_ids: Sequence[WorkflowId]) -> list[OpenWork]:
        rows = self.database.select(Q.open_work, ids=list(workflow_ids)) if workflow_ids else []
        return [
            OpenWork(
                **{name: row[name] for name in ("workflow_id", "name", "task_list", "state", "hold", "via")},
                retried=bool(row["retried"]),
                rated=bool(row["rated"]),
                count=row["count"],
            )
            for row in rows
        ]

    def count_runs_up_to(self, state: str, most: int) -> int:
        query = Q.count_runs_open if state in _OPEN else Q.count_runs_in_state
        return int(self.database.select(query, state=state, limit=most)[0]["found"])

    def get_leading_inputs(
        self, workflow_ids: Sequence[WorkflowId], length: int = 400
    ) -> dict[WorkflowId, str]:
        rows = (
            self.database.select(Q.leading_inputs, ids=list(workflow_ids), length=length)
            if workflow_ids
            else []
        )
        return {row["workflow_id"]: row["text"] for row in rows}

    def get_runs_from(self, origin: str, limit: int = 100) -> list[RunDefinition]:
        beyond = f"{origin}0"  # the zero comes after the slash
        rows = self.database.select(Q.get_runs_from, origin=origin, beyond=beyond, limit=limit)
        return [run_from(row) for row in rows]


def _asked(wanted: RunFilter, latest: int) -> dict[str, Any]:
    return {
        **asdict(wanted),
        "roots": int(wanted.roots),
        "beyond": wanted.prefix + LAST_CHARACTER,
        "latest": latest,
        "text": _anywhere(wanted.text),
        "tags": list(wanted.tags),
        "tag_count": len(wanted.tags),
        "clock": wall_ms(),
        "cost_from": _billionths(wanted.cost_from),
        "cost_to": _billionths(wanted.cost_to),
    }


def _billionths(usd: float) -> int:
    """An amount as it is stored."""
    return round(usd * 1_000_000_000)


def _anywhere(text: str) -> str:
    """The pattern of texts that contain this one; empty for any."""
    if not text:
        return ""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return f"%{text.lower()}%"
