"""Hosts of bridges over an other side that fails, forgets and is late: every task is done once, or canceled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial

import pytest
from support.crossings import Crossing
from support.eventually import eventually

from afl.bridges.bridge import Bridge, ExternalTask, Host, NotReady, Outcome, Refused
from afl.kernel.database import Query
from afl.operations.run.control import cancel, pause
from afl.operations.run.runs import RunReport
from afl.runtime.entities import TaskDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

SOURCE = """
event facet Work(n: Long) => (m: Long) with Agent("somebody") POLICY
facet Each(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
    done = Work(n = n)
    yield Each(ms = [done.m])
}
workflow W(ns: [Long]) => (ms: [Long]) andThen {
    all = Each(ns = $.ns)
    yield W(ms = all.ms)
}
"""


@dataclass
class Side:
    """What is known over there, whoever hosts a bridge to it."""

    guard: threading.Lock = field(default_factory=threading.Lock)
    begun: dict[str, int] = field(default_factory=dict)  # external task -> how often somebody asked for it
    works: dict[str, int] = field(
        default_factory=dict
    )  # external task -> its parameter: the pieces of work there are
    ended: dict[str, Outcome] = field(default_factory=dict)
    off: list[str] = field(default_factory=list)
    forgets: bool = False  # what was called off: nobody knows of it any more
    problem: Callable[[ExternalTask], None] | None = None

    def take(self, external: ExternalTask) -> None:
        with self.guard:
            self.begun[external.id] = self.begun.get(external.id, 0) + 1
            if self.problem is not None:
                self.problem(external)
            self.works.setdefault(external.id, external.parameters["n"])

    def finish(self) -> None:
        with self.guard:
            for external_id, n in self.works.items():
                self.ended.setdefault(external_id, Outcome(external_id, result={"m": n * 2}))


class SideBridge(Bridge):
    kind = "agent"

    def __init__(self, host: Host, side: Side) -> None:
        self._side = side

    async def start(self, external: ExternalTask) -> None:
        self._side.take(external)

    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        return [self._side.ended[external.id] for external in externals if external.id in self._side.ended]

    async def retain(self, externals: Sequence[ExternalTask]) -> None: ...

    async def cancel(self, external_id: str, to: str) -> bool:
        known = external_id in self._side.works and not (self._side.forgets and external_id in self._side.off)
        self._side.off.append(external_id)
        return known

    async def close(self) -> None: ...


@pytest.fixture
def crossing() -> Iterator[Crossing]:
    store = MemoryStore()
    with Crossing(store, "memory://", poll_interval_ms=20) as crossing:
        yield crossing
    store.close()


def host(crossing: Crossing, side: Side) -> None:
    crossing.host(agent=partial(SideBridge, side=side))


def source(policy: str = "") -> str:
    return SOURCE.replace("POLICY", policy)


def test_several_hosts_make_one_piece_of_work_of_each(crossing: Crossing) -> None:
    side = Side()
    for _ in range(3):
        host(crossing, side)
    run = crossing.submit(source(), {"ns": list(range(20))})
    eventually(lambda: len(side.works) == 20)
    side.finish()
    crossing.until(run, "completed")
    assert sorted(side.works) == sorted(task.uuid for task in crossing.tasks(run))


def test_what_is_not_ready_is_offered_again(crossing: Crossing) -> None:
    side = Side()

    def refuse(external: ExternalTask) -> None:
        if side.begun[external.id] < 4:
            raise NotReady("tomorrow")

    side.problem = refuse
    host(crossing, side)
    run = crossing.submit(source(), {"ns": [1]})
    eventually(lambda: side.works)
    side.finish()
    crossing.until(run, "completed")
    assert side.begun[crossing.task(run).uuid] == 4


@pytest.mark.parametrize("problem", [KeyError("a mistake"), OSError("no route")])
def test_a_mistake_in_a_bridge_does_not_end_it(crossing: Crossing, problem: Exception) -> None:
    side = Side()

    def stumble(external: ExternalTask) -> None:
        if side.begun[external.id] == 1:
            raise problem

    side.problem = stumble
    host(crossing, side)
    run = crossing.submit(source(), {"ns": [1, 2]})
    eventually(lambda: len(side.works) == 2)
    side.finish()
    crossing.until(run, "completed")


def test_one_end_that_cannot_be_settled_holds_up_no_other(crossing: Crossing) -> None:
    side = Side()

    class Garrulous(SideBridge):
        async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
            return [Outcome("nobody's", result={}), *await super().poll(externals)]

    crossing.host(agent=partial(Garrulous, side=side))
    run = crossing.submit(source(), {"ns": [1, 2]})
    eventually(lambda: len(side.works) == 2)
    side.finish()
    crossing.until(run, "completed")


def test_a_run_that_cannot_be_read_holds_up_no_other(
    crossing: Crossing, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(crossing.store, MemoryStore)
    broken = crossing.submit(source(), {"ns": [1]})
    eventually(lambda: crossing.tasks(broken))
    spoil = Query("spoil", sqlite="update afl_programs set compiled = '[]'", postgres=None)
    crossing.store.database.atomic(spoil)
    side = Side()
    host(crossing, side)
    run = crossing.submit(source("with Retry(2)"), {"ns": [1, 2]})
    eventually(lambda: len(side.works) == 2)
    side.finish()
    crossing.until(run, "completed")
    told = [each for each in caplog.records if crossing.task(broken).uuid in each.getMessage()]
    assert len([each for each in told if each.levelno >= logging.WARNING]) == 1


def test_what_is_refused_fails_the_step_or_is_tried_again_as_the_workflow_says(crossing: Crossing) -> None:
    side = Side()

    def refuse(external: ExternalTask) -> None:
        if not external.task.failures:
            raise Refused("not you", "Rude")

    side.problem = refuse
    host(crossing, side)
    failed = crossing.submit(source(), {"ns": [1]})
    crossing.until(failed, "failed")
    error = crossing.task(failed).error
    assert error == {"message": "not you", "type": "Rude"}
    run = crossing.submit(source('with Retry(2, backoff = 1, on = ["Rude"])'), {"ns": [1]})
    eventually(lambda: side.works)
    side.finish()
    crossing.until(run, "completed")
    task = crossing.task(run)
    assert list(side.works) == [f"{task.uuid}-1"]
    assert task.uuid in side.off  # the attempt before is called off, whatever became of it


@pytest.mark.parametrize("forgets", [False, True])
def test_what_ends_while_it_is_begun_is_called_off(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch, forgets: bool
) -> None:
    """The cancel comes first over there, where nobody knows the task yet. It is known to be over at once."""
    monkeypatch.setattr("afl.bridges.bridge_worker._CANCEL_REPEAT_MS", 1e9)
    side = Side(forgets=forgets)

    def cancel_first(external: ExternalTask) -> None:
        if not side.works:
            cancel(crossing.store, external.task.workflow_id)

    side.problem = cancel_first
    host(crossing, side)
    run = crossing.submit(source(), {"ns": [1]})
    eventually(lambda: side.works)
    uuid = crossing.task(run).uuid
    eventually(lambda: uuid in side.off and crossing.is_told(run))


def test_a_cancel_that_nobody_over_there_knows_of_is_repeated_for_a_while(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = Side()

    def never(external: ExternalTask) -> None:
        raise NotReady("never")

    side.problem = never
    host(crossing, side)
    run = crossing.submit(source(), {"ns": [1]})
    eventually(lambda: side.begun)
    cancel(crossing.store, run)
    uuid = crossing.task(run).uuid
    eventually(lambda: side.off.count(uuid) >= 3)
    assert not crossing.is_told(run)
    monkeypatch.setattr("afl.bridges.bridge_worker._CANCEL_REPEAT_MS", 0)
    eventually(lambda: crossing.is_told(run))


def test_why_something_waits_is_in_the_log_until_it_is_begun(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.bridges.bridge_worker._QUIET_MS", 0)
    side, ready = Side(), threading.Event()

    def refuse(external: ExternalTask) -> None:
        if not ready.is_set():
            raise NotReady("nobody is at home")

    side.problem = refuse
    host(crossing, side)
    run = crossing.submit(source(), {"ns": [1]})
    eventually(lambda: logged(crossing, run))
    eventually(lambda: side.begun[crossing.task(run).uuid] > 3)
    assert logged(crossing, run) == ["waits for agent:somebody: nobody is at home"]
    ready.set()
    eventually(lambda: logged(crossing, run)[1:] == ["begun: agent:somebody"])


@pytest.mark.parametrize(
    ("act", "status", "told"),
    [(cancel, "ERROR", "canceled by"), (pause, "PAUSED", "paused by")],
)
def test_whoever_waits_for_others_heeds_an_operator(
    crossing: Crossing, act: Callable[..., object], status: str, told: str
) -> None:
    side, ended = Side(), Future[RunReport]()
    bridges = crossing.host(agent=partial(SideBridge, side=side))

    def drive() -> None:
        ended.set_result(crossing.run(source(), {"ns": [1]}, bridges=bridges))

    thread = threading.Thread(target=drive)
    thread.start()
    eventually(lambda: side.works)
    (run,) = crossing.store.get_runs()
    act(crossing.store, run.workflow_id)
    report = ended.result(timeout=60)
    thread.join()
    assert report.status == status
    assert told in (report.reason or str(report.error))


def test_a_run_is_canceled_just_before_its_open_tasks_are_looked_for(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then none of them is open, and nobody is waited for."""
    tasks_of = crossing.store.get_tasks_by_workflow

    def late(run: WorkflowId) -> Sequence[TaskDefinition]:
        monkeypatch.undo()
        cancel(crossing.store, run)
        return tasks_of(run)

    monkeypatch.setattr(crossing.store, "get_tasks_by_workflow", late)
    bridges = crossing.host(agent=partial(SideBridge, side=Side()))
    report = crossing.run(source(), {"ns": [1]}, bridges=bridges)
    assert (report.status, "canceled by" in str(report.error)) == ("ERROR", True)


def logged(crossing: Crossing, run: str) -> list[str]:
    return [log.message for _, log in crossing.store.get_logs_after(run, 0)]
