"""States people think in: what a run does or waits for, derived from its stored state and from its open work.

The stored state says where a run stands in its life; a running one may well wait for a person for a week. What it
waits for is nowhere stored twice: it is read from the open tasks, which whoever claims, retries or answers them keeps
up to date anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from afl.kernel.presence import Life
from afl.runtime.entities import RunDefinition, RunnerState, TaskHold, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.run_lists import OpenWork, Waits
from afl.runtime.types import WorkflowId

if TYPE_CHECKING:
    from afl.operations.work.workers import Server

RETRYING, WAITING, BUDGET = "retrying", "waiting", Waits.BUDGET
WAITS_FOR: Mapping[str, str] = {
    Waits.PERSON: "a person",
    Waits.SIGNAL: "a signal",
    Waits.TIMER: "a timer",
    Waits.SLOT: "a slot",
    BUDGET: "a budget",
    Waits.AGENT: "an agent",
    Waits.RUN: "a child run",
}
ATTENTION = frozenset({Waits.PERSON, BUDGET, Waits.AGENT})
_ANSWERED = ("human", "signal", "run")  # these are waited for however often they were asked
_NAMED = 3


@dataclass(frozen=True)
class RunStatus:
    """A word of RUN_STATES without its colon, what a waiting run waits for, and of whom or what, by name.

    `attention`: nothing happens before somebody acts.
    """

    status: str
    waits_for: str = ""
    names: str = ""

    @property
    def attention(self) -> bool:
        return self.waits_for in ATTENTION

    @property
    def words(self) -> str:
        """As people read it: `waiting for a person`."""
        return f"{self.status} for {WAITS_FOR[self.waits_for]}" if self.waits_for else self.status

    def fits(self, wanted: str) -> bool:
        """Whether it is one of those that a filter asks for; an empty filter asks for any."""
        return wanted in ("", self.status, f"{self.status}:{self.waits_for}")


class Staff:
    """Who serves what: the servers of a store, read once, if at all."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store

    @cached_property
    def _live(self) -> list[Server]:
        from afl.operations.work.workers import live_servers  # noqa: PLC0415  most lists need no servers

        return live_servers(self._store)

    def serves(self, work: OpenWork, run: RunDefinition) -> bool:
        """Whether somebody who lives takes such a task or hands it on: a server, or the process that has the run."""
        return self._holds(run) or any(self._takes(server, work) for server in self._live)

    def _takes(self, server: Server, work: OpenWork) -> bool:
        if work.hold == TaskHold.ELSEWHERE:
            return work.via.partition(":")[0] in server.bridges
        return server.serves(work.name) and server.serves_list(work.task_list)

    def _holds(self, run: RunDefinition) -> bool:
        return bool(run.owner) and self._store.life(run.owner) is not Life.DEAD


def status_of(run: RunDefinition, work: Iterable[OpenWork], staff: Staff) -> RunStatus:
    """The state of a run: the first that holds of waiting for a person, retrying, running, and waiting for the rest."""
    if run.state == RunnerState.PAUSED and run.reason.startswith(BUDGET):
        return RunStatus(WAITING, BUDGET)
    if run.state != RunnerState.RUNNING:
        return RunStatus(run.state)
    kinds: dict[str, list[OpenWork]] = {}
    for each in work:
        kinds.setdefault(kind_of(each), []).append(each)
    for kind in (
        Waits.PERSON,
        Waits.RETRY,
        "",
        Waits.AGENT,
        Waits.SIGNAL,
        Waits.SLOT,
        Waits.TIMER,
        Waits.RUN,
    ):
        found = _unserved(run, kinds, staff) if kind == Waits.AGENT else kinds.get(kind)
        if found:
            return _of_kind(kind, found)
        if kind == Waits.AGENT and kinds.get(Waits.AGENT):
            return RunStatus(RunnerState.RUNNING)
    return RunStatus(RunnerState.RUNNING)


def _of_kind(kind: str, work: Sequence[OpenWork]) -> RunStatus:
    if kind == "":
        return RunStatus(RunnerState.RUNNING)
    names = _names(work)
    return RunStatus(RETRYING, names=names) if kind == Waits.RETRY else RunStatus(WAITING, kind, names)


def _unserved(run: RunDefinition, kinds: Mapping[str, list[OpenWork]], staff: Staff) -> list[OpenWork]:
    """Work to be claimed or handed on that nobody serves; none as long as somebody serves some of it."""
    claimable = kinds.get(Waits.AGENT, [])
    return [] if any(staff.serves(each, run) for each in claimable) else claimable


def kind_of(work: OpenWork) -> str:
    """What it waits for: a word of Waits, empty if it is being done."""
    place = work.via.partition(":")[0]
    if work.retried and place not in _ANSWERED:
        return Waits.RETRY
    if work.state == TaskState.RUNNING:
        return ""
    match work.hold, place:
        case TaskHold.ELSEWHERE, "human":
            return Waits.PERSON
        case TaskHold.ELSEWHERE, "signal":
            return Waits.SIGNAL
        case TaskHold.ELSEWHERE, "run":
            return Waits.RUN
        case TaskHold.ELSEWHERE, _:
            return Waits.AGENT  # a server hands it on and brings the answer back
        case TaskHold.TIMER, _:
            return Waits.TIMER
        case TaskHold.CONCURRENCY, _:
            return Waits.SLOT
        case "", _:
            return Waits.SLOT if work.rated else Waits.AGENT
        case _:
            return ""  # a sweep is about to see to it


def _names(work: Sequence[OpenWork]) -> str:
    """The people, signals or facets that are meant: a few of them."""
    found = list(dict.fromkeys(each.via.partition(":")[2] or each.name for each in work))
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(found[:_NAMED]) + more


def statuses(
    store: PersistenceAPI, runs: Sequence[RunDefinition], staff: Staff | None = None
) -> dict[str, RunStatus]:
    """The states of these runs, by id, in one look at their open work."""
    going = [WorkflowId(run.workflow_id) for run in runs if run.state == RunnerState.RUNNING]
    work: dict[str, list[OpenWork]] = {}
    for each in store.get_open_work(going) if going else ():
        work.setdefault(each.workflow_id, []).append(each)
    staff = staff or Staff(store)
    return {run.workflow_id: status_of(run, work.get(run.workflow_id, ()), staff) for run in runs}
