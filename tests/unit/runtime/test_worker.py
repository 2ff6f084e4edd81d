"""The worker core: claims, order, prefetch, redelivery, what is taken away, a store that fails, and the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from support.agents import (
    LONG,
    SECONDS,
    Deaf,
    Gate,
    Recorder,
    begin,
    double,
    ended,
    only_task,
    received,
    run_of,
    submit,
)
from support.eventually import eventually

from afl.kernel.errors import InputError, StoreUnavailable
from afl.kernel.notify import Subscription
from afl.kernel.thread_pool import ThreadPool
from afl.runtime.entities import LogDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import TaskFilter
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.states import EventState
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.task_handlers.handler import Callback, HandlerContext, Handlers
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import EventId, StepId
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.results import TaskResult
from afl.runtime.worker.worker import Worker

Work = Callable[[dict[str, Any]], Any]


class Crew:
    """A worker on a recorded store."""

    def __init__(
        self,
        store: SqlStore,
        work: Work | Handlers = double,
        recorder: Recorder | None = None,
        **terms: Any,
    ) -> None:
        self.store, self.recorder, self.telemetry = store, recorder or Recorder(store), Telemetry()
        handlers = work if isinstance(work, Handlers) else Handlers([Callback("Double", work)])
        self.hooks = WorkerHooks(stored=self._count)
        self.counted: list[tuple[str, bool]] = []
        given = {"poll_seconds": 0.02, "evaluates": True, **terms}
        self.pool = ThreadPool("crew")
        evaluator = Evaluator(self.recorder.api, self.telemetry)
        self.worker = Worker(evaluator, handlers, WorkerOptions(**given), lambda: self.pool, self.hooks)

    def _count(self, result: TaskResult, problem: str | None) -> None:
        self.counted.append((result.task.name, problem is None))

    @contextmanager
    def at_work(self, drain: float = SECONDS) -> Iterator[Crew]:
        thread = threading.Thread(target=self.worker.run)
        thread.start()
        try:
            yield self
        finally:
            self.worker.stop()
            thread.join()
            self.worker.drain(drain)

    @property
    def resumes(self) -> int:
        return len([event for event in self.telemetry.get_events() if event.event_type == "workflow.resume"])


def task_states(store: MemoryStore, run: str) -> list[str]:
    return sorted(task.state for task in store.get_tasks_by_workflow(run))  # type: ignore[arg-type]


# -- claiming -------------------------------------------------------------------------------------------------


def test_no_more_is_in_hand_than_can_be_worked_on_while_nobody_knows_how_long_it_takes(
    store: MemoryStore,
) -> None:
    gate = Gate()
    run = begin(store, "ns.Many", {"list": list(range(50))})
    with Crew(store, gate, concurrency=3).at_work():
        gate.called(3)
        assert len(store.find_tasks(TaskFilter(state=TaskState.RUNNING))) == len(gate.calls) == 3
        gate.open()
        ended(store, run)


class Watched(Recorder):
    """A store that notes how long whoever listens is ready to wait."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.waits: list[float | None] = []

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        subscription = self._store.subscribe(topics, early)
        wait = subscription.wait

        def noted(timeout: float | None = None) -> frozenset[str]:
            self.waits.append(timeout)
            return wait(timeout)

        subscription.wait = noted  # type: ignore[method-assign]
        return subscription


def test_a_worker_whose_hands_are_full_waits(store: MemoryStore) -> None:
    gate, watched = Gate(), Watched(store)
    begin(store, "ns.Many", {"list": [1, 2]})
    with Crew(store, gate, watched, concurrency=1).at_work():
        gate.called()
        polls = watched.count("get_due_runs")
        watched.until(lambda r: r.count("get_due_runs") > polls)  # it polls while all hands are full
        watched.waits.clear()
        eventually(lambda: any(watched.waits))
        gate.open()


def test_the_next_step_of_a_run_stays_here_while_nobody_older_waits(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    born, commit = [], store.commit_all

    def look(batch: Any) -> Any:
        born.extend(task.state for changes in batch for task in changes.created_tasks)
        return commit(batch)

    monkeypatch.setattr(store, "commit_all", look)

    def stays() -> bool:
        born.clear()
        assert ended(store, begin(store, "ns.Twice")).outputs == {"m": 12}
        return born == [TaskState.RUNNING]

    with Crew(store, concurrency=2, poll_seconds=LONG).at_work():
        eventually(
            stays
        )  # just after a sweep it does not: a notification may have been lost, and somebody older wait


def test_an_interrupt_ends_the_wait_but_nobody_leads_any_more_then(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew, stopped, interrupts = Crew(store), threading.Event(), threading.Event()
    ended: list[int] = []

    def once(*_: object) -> None:
        if not interrupts.is_set():
            interrupts.set()
            raise KeyboardInterrupt

    def interrupted() -> None:
        while not interrupts.is_set():  # a signal just before the main thread waits does not end its wait
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            interrupts.wait(0.05)
        assert stopped.wait(SECONDS)
        ended.append(1)

    stop = crew.worker.stop
    monkeypatch.setattr(crew.worker, "round", interrupted)
    monkeypatch.setattr(crew.worker, "stop", lambda: (stop(), stopped.set()))
    before = signal.signal(signal.SIGINT, once)
    try:
        with pytest.raises(KeyboardInterrupt):
            crew.worker.run()
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [1]
    crew.worker.drain(0)


def test_chores_are_done_though_all_hands_are_full(store: MemoryStore) -> None:
    gate, done = Gate(), threading.Semaphore(0)
    begin(store)
    crew = Crew(store, gate, concurrency=1)
    crew.hooks.periodic_jobs = [done.release]
    with crew.at_work():
        gate.called()
        while done.acquire(blocking=False):
            pass
        assert done.acquire(timeout=SECONDS)
        assert done.acquire(timeout=SECONDS)
        gate.open()


def test_quick_work_is_taken_ahead_and_given_back_at_the_end(store: MemoryStore) -> None:
    gate, begun = Gate(), threading.Event()

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        if payload["n"] < 50:
            return double(payload)
        begun.set()
        return gate(payload)

    run = begin(store, "ns.Many", {"list": list(range(100))})
    with Crew(store, work, concurrency=1).at_work() as crew:
        assert begun.wait(SECONDS)
        crew.worker.stop()
        opener = threading.Thread(target=_open_when_given_back, args=(crew, gate))
        opener.start()
    opener.join()
    states = [(task.state, task.deliveries) for task in store.get_tasks_by_workflow(run)]
    assert states == [*[(TaskState.COMPLETED, 1)] * 51, *[(TaskState.PENDING, 0)] * 49]


def test_the_older_task_goes_first_though_a_newer_one_is_born_here(store: MemoryStore) -> None:
    order: list[int] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        order.append(payload["n"])
        return double(payload)

    first = begin(store, "ns.Twice", {"n": 1})
    others = [begin(store, inputs={"n": 10 + number}) for number in range(30)]
    with Crew(store, work, concurrency=1).at_work():
        for run in [first, *others]:
            ended(store, run)
    assert order[0] == 1
    assert order.index(2) > order.index(19), "the second step of the first run overtook older tasks"


def test_with_nobody_waiting_a_task_is_born_claimed(store: MemoryStore) -> None:
    with Crew(store).at_work() as crew:
        run = submit(store, "ns.Twice")
        assert ended(store, run).outputs == {"m": 12}
    tasks = store.get_tasks_by_workflow(run)
    assert [(task.state, task.deliveries) for task in tasks] == [(TaskState.COMPLETED, 1)] * 2
    assert crew.counted == [("ns.Double", True)] * 2


def test_a_thousand_tasks_cost_few_resumes(store: MemoryStore) -> None:
    with Crew(store, concurrency=10).at_work() as crew:
        run = submit(store, "ns.Many", {"list": list(range(1000))})
        assert ended(store, run).outputs == {"all": [n * 2 for n in range(1000)]}
    assert crew.resumes <= 120
    assert len(crew.counted) == 1000


def test_a_worker_that_does_not_evaluate_leaves_submitted_runs_alone(store: MemoryStore) -> None:
    crew = Crew(store, evaluates=False)
    run = submit(store)
    with crew.at_work():
        crew.recorder.until(lambda r: r.count("claim_tasks") >= 5)
    assert run_of(store, run).state == RunnerState.CREATED


def test_a_delayed_task_is_claimed_when_its_time_has_come(store: MemoryStore) -> None:
    run = begin(store)
    task = store.claim_task(["Double"], owner="somebody", lease_ms=LONG)
    assert task is not None
    with Crew(store, poll_seconds=LONG).at_work() as crew:
        crew.recorder.until(lambda r: r.count("claim_tasks") >= 1)
        assert store.requeue(task, 40, {"message": "no"})
        assert ended(store, run).outputs == {"m": 6}
    assert only_task(store, run).failures == 1


def test_events_of_long_work_are_processing(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store)
    with Crew(store, gate).at_work():
        gate.called()
        uuid = only_task(store, run).uuid

        def processing() -> bool:
            event = store.get_event(EventId(uuid))
            return event is not None and event.state == EventState.PROCESSING

        received(store, "nothing", processing)
        gate.open()
        ended(store, run)


# -- redelivery and what is taken away ------------------------------------------------------------------------


def test_a_task_whose_owner_died_is_delivered_again_and_counts(store: MemoryStore) -> None:
    run = begin(store)
    for number in range(3):
        task = store.claim_task(["Double"], owner=f"dead-{number}", lease_ms=LONG)
        assert task is not None
        store.start_tasks([task])
        store.release_tasks(f"dead-{number}", died=True)
    attempts: list[int] = []

    def note(n: int, context: HandlerContext) -> dict[str, int]:
        attempts.append(context.attempt)
        return {"m": n * 2}

    with Crew(store, Handlers.of({"Double": note})).at_work():
        assert ended(store, run).outputs == {"m": 6}
    task = only_task(store, run)
    assert (task.deliveries, task.deaths, task.failures) == (4, 3, 0)
    assert attempts == [4]


def test_a_lease_that_ended_lets_the_worker_take_the_task(store: MemoryStore) -> None:
    store.lease_ms = 200
    run = begin(store)
    assert store.claim_task(["Double"], owner="silent", lease_ms=1) is not None
    with Crew(store).at_work():
        assert ended(store, run).outputs == {"m": 6}
    assert (only_task(store, run).expiries, only_task(store, run).deaths) == (1, 0)


def test_time_in_which_the_store_was_away_does_not_count_toward_expiry(store: MemoryStore) -> None:
    run, looked = begin(store), threading.Semaphore(0)
    assert store.claim_task(["Double"], owner="cut off", lease_ms=1) is not None
    crew = Crew(store)
    crew.recorder.fail("claim_tasks", StoreUnavailable("away"))
    reclaim = store.reclaim

    def watched(*, expired: bool = True) -> int:
        asked.append(expired)
        looked.release()
        return reclaim(expired=expired)

    asked: list[bool] = []
    store.reclaim = watched  # type: ignore[method-assign]
    with crew.at_work():
        for _ in range(3):
            assert looked.acquire(timeout=SECONDS)
        assert asked[:3] == [False, False, False], "its owner may renew it, now that the store is back"
        assert only_task(store, run).owner == "cut off"


class Waiting:
    """A handler that waits until it is told to stop."""

    def __init__(self) -> None:
        self.began, self.told = threading.Event(), threading.Event()

    def __call__(self, n: int, context: HandlerContext) -> dict[str, int]:
        self.began.set()
        assert context.cancellation.wait(SECONDS)
        self.told.set()
        return {"m": -1}

    @property
    def handlers(self) -> Handlers:
        return Handlers.of({"Double": self.__call__})


def test_canceling_a_run_tells_its_handlers_and_drops_their_answers(store: MemoryStore) -> None:
    waiting, run = Waiting(), begin(store)
    with Crew(store, waiting.handlers, poll_seconds=LONG).at_work():
        assert waiting.began.wait(SECONDS)
        assert store.cancel_run(run, "enough")
        assert waiting.told.wait(SECONDS)
    task = only_task(store, run)
    assert (task.state, task.result) == (TaskState.CANCELED, None)
    assert run_of(store, run).state == RunnerState.CANCELED
    assert run_of(store, run).owner == ""


def test_the_slot_of_a_canceled_task_is_free_for_others(store: MemoryStore) -> None:
    waiting, run = Waiting(), begin(store)
    with Crew(store, waiting.handlers, concurrency=1).at_work():
        assert waiting.began.wait(SECONDS)
        store.cancel_run(run, "enough")
        assert waiting.told.wait(SECONDS)
        waiting.began.clear()
        other = begin(store)
        assert waiting.began.wait(SECONDS)
        store.cancel_run(other, "enough")


def test_pausing_a_run_lets_its_work_finish_and_its_results_wait(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store, "ns.Twice")
    with Crew(store, gate).at_work() as crew:
        gate.called()
        assert store.pause_run(run, "lunch")
        gate.open()
        received(store, "nothing", lambda: crew.counted)
        assert run_of(store, run).state == RunnerState.PAUSED
        assert task_states(store, run) == [TaskState.COMPLETED]
        assert store.unpause_run(run)
        received(store, f"run:{run}", lambda: run_of(store, run).is_over)
    assert run_of(store, run).outputs == {"m": 12}
    assert len(gate.calls) == 2


def test_the_answer_for_a_task_that_another_has_now_is_dropped(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store)
    with Crew(store, gate, concurrency=1).at_work() as crew:
        gate.called()
        assert store.release_tasks(store.owner_id, died=True) == 1
        other = store.claim_task(["Double"], owner="other", lease_ms=LONG)
        assert other is not None
        gate.open()
        received(store, "nothing", lambda: crew.worker.in_flight.running == 0)
    task = only_task(store, run)
    assert (task.state, task.owner, task.epoch) == (TaskState.RUNNING, "other", other.epoch)
    assert Evaluator(store).continue_step(StepId(task.step_id), {"m": 1}, task=other)


def test_an_answer_for_a_run_that_was_removed_meanwhile_does_no_harm(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store)
    with Crew(store, gate).at_work():
        gate.called()
        assert store.cancel_run(run, "enough")
        ended_at = run_of(store, run).ended
        assert store.delete_runs(ended_at + 1, 10) == 1
        gate.open()
        assert ended(store, begin(store)).outputs == {"m": 6}


def test_the_time_a_task_waits_for_a_slot_is_not_its_handlers(store: MemoryStore) -> None:
    """What has not begun cannot have taken too long."""
    source = """
    event facet Double(n: Long) => (m: Long)
    workflow Once(n: Long) => (m: Long) andThen {
        d = Double($.n) with Timeout(ms = 150)
        yield Once(m = d.m)
    }
    """
    gate, first = Gate(), begin(store)
    second = begin(store, "Once", {"n": 4}, source)
    with Crew(store, gate, concurrency=1).at_work() as crew:
        gate.called()
        crew.recorder.until(lambda r: r.count("claim_tasks") > 0)
        until = store.now() + 600
        received(store, "nothing", lambda: store.now() > until)
        gate.open()
        assert ended(store, first).outputs == {"m": 6}
        assert ended(store, second).outputs == {"m": 8}


def test_a_worker_does_not_notify_itself_while_a_handler_runs(empty_sqlite_url: str) -> None:
    """On SQLite every commit notifies every topic: a write in answer to that would never end."""
    store, gate = SqliteStore(empty_sqlite_url), Gate()
    store.lease_ms = LONG
    run = begin(store)
    with Crew(store, gate, poll_seconds=LONG).at_work() as crew:
        gate.called()
        store.save_log(LogDefinition("l1", 0, run, message="somebody commits"))
        crew.recorder.until(lambda r: r.count("held_tasks") > 0)
        assert crew.recorder.count("renew") == 0
        gate.open()
        assert ended(store, run).outputs == {"m": 6}
    store.close()


class SlowRenewal(Recorder):
    """Whose answer to a renewal comes late: after it, others do something first."""

    def __init__(self, store: MemoryStore) -> None:
        super().__init__(store)
        self.meanwhile: Callable[[], None] | None = None
        self.answered, self.told = threading.Event(), threading.Event()

    def renew(self, *args: Any, **options: Any) -> list[tuple[str, int]]:
        if self.answered.is_set():  # the next turn: of the last one everybody has heard
            self.told.set()
        held = self._store.renew(*args, **options)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
            self.answered.set()
        return held


def test_work_that_begins_while_leases_are_renewed_is_not_taken_for_lost(store: MemoryStore) -> None:
    store.lease_ms = 300
    contexts: dict[int, HandlerContext] = {}
    begun, let_go = threading.Semaphore(0), threading.Event()

    def work(n: int, context: HandlerContext) -> dict[str, int]:
        contexts[n] = context
        begun.release()
        assert let_go.wait(SECONDS)
        return {"m": n}

    slow = SlowRenewal(store)
    crew = Crew(store, Handlers.of({"Double": work}), recorder=slow)
    begin(store, inputs={"n": 1})
    with crew.at_work():
        assert begun.acquire(timeout=SECONDS)

        def another_begins() -> None:
            begin(store, inputs={"n": 2})
            assert begun.acquire(timeout=SECONDS)

        slow.meanwhile = another_begins
        assert slow.told.wait(SECONDS)
        told = {n: context.canceled for n, context in contexts.items()}
        let_go.set()
    assert told == {1: False, 2: False}


# -- a store that fails ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["commit", "get_marks", "take_run"])
def test_answers_survive_a_store_that_fails(store: MemoryStore, method: str) -> None:
    """The handler is not called again for it, nor is the task lost while other work goes on."""
    store.lease_ms = 500
    gate = Gate()
    run = begin(store)
    with Crew(store, gate).at_work() as crew:
        gate.called()
        crew.recorder.fail(method, StoreUnavailable("away"))
        gate.open()
        assert ended(store, run).outputs == {"m": 6}
    assert len(gate.calls) == 1
    assert (only_task(store, run).deliveries, only_task(store, run).deaths) == (1, 0)


def test_answers_of_tasks_without_a_step_survive_too(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t", "Double", "", "", "", "", data={"n": 4}))
    gate = Gate()
    with Crew(store, gate).at_work() as crew:
        gate.called()
        crew.recorder.fail("close_tasks", StoreUnavailable("away"))
        gate.open()
        done = received(store, "nothing", lambda: store.find_tasks(TaskFilter(state=TaskState.COMPLETED)))
    assert done[0].result == {"m": 8}
    assert len(gate.calls) == 1
    assert crew.counted == [("Double", True)], "once it is stored, and not with every try"


def test_logs_survive_a_store_that_fails(store: MemoryStore) -> None:
    def talk(n: int, context: HandlerContext) -> dict[str, int]:
        context.log("said")
        return {"m": n}

    run = begin(store)
    crew = Crew(store, Handlers.of({"Double": talk}))
    crew.recorder.fail("save_logs", StoreUnavailable("away"))
    with crew.at_work():
        ended(store, run)
        received(store, "nothing", lambda: crew.recorder.count("save_logs") >= 1)
    assert [entry.message for entry in store.get_logs_by_runner(run)] == ["said"]


def test_tasks_of_the_system_survive_a_store_that_fails(store: MemoryStore) -> None:
    for number in range(3):
        store.save_task(TaskDefinition(f"t{number}", "afl:test", "", "", "", ""))
    crew = Crew(store, system_tasks=("afl:test",))
    begun: list[str] = []

    def system(task: TaskDefinition) -> None:
        begun.append(task.uuid)
        if len(begun) == 1:
            raise StoreUnavailable("away")
        task.state = TaskState.COMPLETED
        store.close_tasks([task])

    crew.hooks.run_system_task = system
    with crew.at_work():
        received(store, "nothing", lambda: len(store.find_tasks(TaskFilter(state=TaskState.COMPLETED))) == 3)
    assert sorted(set(begun)) == ["t0", "t1", "t2"]
    assert {task.deaths for task in store.get_all_tasks()} == {0}


def lease_of(store: MemoryStore, uuid: str) -> int:
    task = store.get_task(uuid)
    assert task is not None
    return task.lease_until


def test_a_task_of_the_system_that_a_ring_brought_keeps_its_lease(store: MemoryStore) -> None:
    store.lease_ms = 300
    watched, done = Watched(store), threading.Event()
    crew = Crew(store, recorder=watched, system_tasks=("afl:test",), poll_seconds=LONG)

    def system(task: TaskDefinition) -> None:
        eventually(lambda: lease_of(store, task.uuid) > task.lease_until)
        task.state = TaskState.COMPLETED
        store.close_tasks([task])
        done.set()

    crew.hooks.run_system_task = system
    with crew.at_work():
        eventually(lambda: any(watched.waits))  # it has looked, and there was nothing
        store.save_task(TaskDefinition("t", "afl:test", "", "", "", ""))
        assert done.wait(SECONDS)


def test_what_a_sweep_finds_is_begun_without_a_ring_and_keeps_its_lease(store: MemoryStore) -> None:
    """Also where handlers are so quick that it asks for work on another thread."""
    store.lease_ms = 300
    gate = Gate()

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        return double(payload) if payload["n"] < 50 else gate(payload)

    run = begin(store, "ns.Many", {"list": list(range(20))})
    with Crew(store, work, Deaf(store), poll_seconds=LONG).at_work():
        ended(store, run)
        store.save_task(TaskDefinition("t", "Double", "", "", "", "", data={"n": 50}))
        gate.called()
        lease = lease_of(store, "t")
        eventually(lambda: lease_of(store, "t") > lease)
        gate.open()
    assert [
        task.result for task in store.find_tasks(TaskFilter(state=TaskState.COMPLETED)) if not task.step_id
    ] == [{"m": 100}]


@pytest.mark.parametrize(
    ("error", "told"),
    [(InputError("nonsense"), "broken failed: nonsense"), (KeyError("time"), "KeyError: 'time'")],
)
def test_a_chore_that_fails_does_not_keep_the_worker_from_its_work(
    store: MemoryStore, caplog: pytest.LogCaptureFixture, error: Exception, told: str
) -> None:
    crew = Crew(store)

    def broken() -> None:
        raise error

    crew.hooks.periodic_jobs = [broken]
    with crew.at_work():
        crew.recorder.until(lambda r: told in caplog.text)
        assert ended(store, submit(store)).outputs == {"m": 6}


def test_waits_between_attempts_end_when_the_worker_is_stopped(store: MemoryStore) -> None:
    crew = Crew(store)
    crew.recorder.fail("claim_tasks", *[StoreUnavailable("away")] * 1000)
    with crew.at_work():
        crew.recorder.until(lambda r: r.count("claim_tasks") >= 2)
    assert crew.recorder.count("claim_tasks") < 1000


# -- the end --------------------------------------------------------------------------------------------------


def _open_when_given_back(crew: Crew, gate: Gate) -> None:
    crew.recorder.until(lambda r: r.count("return_tasks") > 0)
    gate.open()


def test_draining_gives_up_what_takes_too_long(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store)
    crew = Crew(store, gate)
    with crew.at_work(drain=0):
        gate.called()
        held = only_task(store, run)
    assert crew.worker.abandoned == 1
    task = only_task(store, run)
    assert (task.state, task.owner, task.deliveries, task.deaths) == (TaskState.PENDING, "", 1, 0)
    assert task.epoch > held.epoch
    gate.open()


def test_draining_gives_back_tasks_of_the_system_too(store: MemoryStore) -> None:
    store.save_task(TaskDefinition("t", "afl:test", "", "", "", ""))
    crew, stopped = Crew(store, system_tasks=("afl:test",)), threading.Event()

    def system(task: TaskDefinition) -> None:
        crew.worker.stop()
        stopped.set()
        raise StoreUnavailable("away")

    crew.hooks.run_system_task = system
    with crew.at_work():
        assert stopped.wait(SECONDS)
    (task,) = store.get_all_tasks()
    assert (task.state, task.owner) == (TaskState.PENDING, "")


def test_a_worker_that_is_told_to_stop_keeps_no_new_tasks(store: MemoryStore) -> None:
    gate, run = Gate(), begin(store, "ns.Twice")
    crew = Crew(store, gate)
    with crew.at_work():
        gate.called()
        crew.worker.stop()
        gate.open()
    assert task_states(store, run) == [TaskState.COMPLETED, TaskState.PENDING]
    assert len(gate.calls) == 1


def test_nothing_is_left_behind(store: MemoryStore) -> None:
    before = set(threading.enumerate())
    with Crew(store).at_work() as crew:
        run = submit(store, "ns.Many", {"list": list(range(20))})
        ended(store, run)
    crew.pool.shutdown(wait=True)
    assert set(threading.enumerate()) - before == set()
    assert run_of(store, run).owner == ""
    assert store.find_tasks(TaskFilter(owner=store.owner_id, state=TaskState.RUNNING)) == []
