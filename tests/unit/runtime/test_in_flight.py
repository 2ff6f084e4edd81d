"""Tasks in hand: slots, what waits for one, time limits, threads that never return, answers that come too late."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from support.agents import LONG, SECONDS, Gate

from afl.kernel.thread_pool import Job, ThreadPool, Threads
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Callback, HandlerContext, Handlers
from afl.runtime.worker import in_flight
from afl.runtime.worker.in_flight import InFlightTasks
from afl.runtime.worker.results import HandlerTimeout, TaskResult


class Manual:
    """Threads that run when the test says so."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def run(self, job: Job) -> None:
        self.jobs.append(job)

    def do_one(self) -> None:
        """Run one job to its end, on this thread."""
        self.jobs.pop(0)()


def echo(payload: dict[str, Any]) -> dict[str, Any]:
    return payload


def task(number: int = 0, **fields: Any) -> TaskDefinition:
    usual = {"name": "ns.F", "workflow_id": "w", "step_id": f"s{number}", "data": {"n": number}, "epoch": 1}
    return TaskDefinition(f"t{number}", runner_id="", flow_id="", **{**usual, **fields})


def tasks_on(
    store: MemoryStore, work: Any = echo, slots: int = 2, threads: Threads | None = None, **options: Any
) -> InFlightTasks:
    handlers = work if isinstance(work, Handlers) else Handlers([Callback("F", work)])
    made = threads or Manual()
    return InFlightTasks(store, handlers, lambda: made, slots, **options)


def names(done: list[TaskResult]) -> list[str]:
    return [each.task.uuid for each in done]


# -- slots ----------------------------------------------------------------------------------------------------


def test_as_many_handlers_work_as_there_are_slots(store: MemoryStore) -> None:
    gate, pool = Gate(echo), ThreadPool("flight")
    flight = tasks_on(store, gate, 2, pool)
    flight.start([task(number) for number in range(4)])
    gate.called(2)
    assert len(gate.calls) == 2
    assert (flight.running, flight.collect_now()) == (4, [])
    gate.open()
    done: list[str] = []
    while len(done) < 4:
        done += names(flight.collect(SECONDS))
    assert sorted(done) == ["t0", "t1", "t2", "t3"]
    assert flight.running == 0
    pool.shutdown()


def test_one_thread_works_on_one_task_after_another(store: MemoryStore) -> None:
    threads = Manual()
    flight = tasks_on(store, slots=1, threads=threads)
    flight.start([task(0), task(1), task(2)])
    assert len(threads.jobs) == 1
    threads.do_one()
    assert names(flight.collect_now()) == ["t0", "t1", "t2"]
    flight.start([task(3)])
    assert len(threads.jobs) == 1


def test_room_shrinks_with_what_is_in_hand_and_on_offer(store: MemoryStore) -> None:
    flight = tasks_on(store, slots=4)
    assert flight.room == flight.limit == 4
    flight.start([task(0)])
    assert flight.room == 3
    assert flight.serves(task(1))
    assert flight.room == 2
    flight.start([task(1)])
    assert flight.room == 2
    for number in (2, 3):
        assert flight.serves(task(number))
    assert not flight.serves(task(4))
    assert not tasks_on(store).serves(task(5, name="ns.G"))


@pytest.mark.parametrize(
    ("seconds", "least", "most"),
    [(1.0, 2, 2), (0.050, 2, 2), (0.020, 3, 12), (0.001, 50, 258), (1e-9, 50, 258)],
)
def test_few_wait_where_handlers_are_slow_and_many_where_they_are_quick(
    store: MemoryStore, seconds: float, least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, seconds])
    threads = Manual()
    flight = tasks_on(store, threads=threads)
    assert flight.limit == 2, "nobody knows yet how quick they are"
    flight.start([task()])
    with monkeypatch.context() as patch:
        patch.setattr("afl.runtime.worker.executor.time.monotonic", lambda: next(clock))
        threads.do_one()
    assert [each.seconds for each in flight.collect_now()] == [seconds]
    assert least <= flight.limit <= most


def test_work_here_needs_no_thread(store: MemoryStore) -> None:
    threads: list[threading.Thread] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return payload

    flight = tasks_on(store, work)
    flight.start([task(0), task(1)], here=True)
    assert threads == [threading.current_thread()] * 2
    assert [each.value for each in flight.collect_now()] == [{"n": 0}, {"n": 1}]


def test_what_works_for_a_run_is_known(store: MemoryStore) -> None:
    flight = tasks_on(store)
    flight.start([task(0), task(1, workflow_id="v")])
    assert flight.has_task_of("w")
    assert flight.has_task_of("v")
    assert not flight.has_task_of("x")


# -- answers --------------------------------------------------------------------------------------------------


def test_an_answer_an_error_and_a_missing_handler(store: MemoryStore) -> None:
    def work(payload: dict[str, Any]) -> dict[str, Any]:
        if payload["n"]:
            raise ValueError("odd")
        return {"fine": True}

    flight = tasks_on(store, work)
    flight.start([task(0), task(1), task(2, name="ns.G")], here=True)
    fine, odd, lost = flight.collect_now()
    assert (fine.value, fine.error) == ({"fine": True}, None)
    assert (odd.value, str(odd.error), odd.error_type) == (None, "odd", "ValueError")
    assert str(lost.error) == "No handler for event task 'ns.G'"


def test_even_what_would_end_a_thread_is_an_answer(store: MemoryStore) -> None:
    def leave(payload: dict[str, Any]) -> dict[str, Any]:
        raise [SystemExit(1), KeyboardInterrupt(), GeneratorExit()][payload["n"]]

    pool = ThreadPool("flight")
    flight = tasks_on(store, leave, 1, pool)
    flight.start([task(number) for number in range(3)])
    done: list[TaskResult] = []
    while len(done) < 3:
        done += flight.collect(SECONDS)
    assert [each.error_type for each in done] == ["SystemExit", "KeyboardInterrupt", "GeneratorExit"]
    pool.shutdown()


def test_an_interrupt_on_the_main_thread_is_not_the_handlers(store: MemoryStore) -> None:
    def interrupted(payload: dict[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tasks_on(store, interrupted).start([task()], here=True)


def test_a_ring_says_that_there_is_something_to_collect(store: MemoryStore) -> None:
    notified: list[str] = []
    threads = Manual()
    flight = tasks_on(store, threads=threads, notify=lambda: notified.append("rang"))
    flight.start([task()])
    threads.do_one()
    assert notified == ["rang"]
    assert names(flight.collect_now()) == ["t0"]


def test_collecting_waits_no_longer_than_it_is_told(store: MemoryStore) -> None:
    flight = tasks_on(store)
    flight.start([task()])
    assert flight.collect(0) == []
    assert flight.collect(0.001) == []


def test_what_handlers_log_is_written(store: MemoryStore) -> None:
    written: list[LogDefinition] = []

    def talk(n: int, context: HandlerContext) -> dict[str, int]:
        context.log("hello")
        return {}

    flight = tasks_on(store, Handlers.of({"F": talk}), write=written.append)
    flight.start([task()], here=True)
    assert [(entry.message, entry.step_id) for entry in written] == [("hello", "s0")]


# -- time limits ----------------------------------------------------------------------------------------------


class Stuck:
    """A handler that never returns unless it is told to stop, and not even then at once."""

    def __init__(self) -> None:
        self.contexts: list[HandlerContext] = []
        self.began, self.let_go = threading.Semaphore(0), threading.Event()

    def work(self, n: int, context: HandlerContext) -> dict[str, int]:
        self.contexts.append(context)
        self.began.release()
        assert self.let_go.wait(SECONDS)
        return {"n": n}

    @property
    def handlers(self) -> Handlers:
        return Handlers.of({"F": self.work})


def test_a_handler_that_takes_too_long_is_given_up_and_its_late_answer_dropped(store: MemoryStore) -> None:
    stuck, pool = Stuck(), ThreadPool("flight")
    flight = tasks_on(store, stuck.handlers, 1, pool)
    flight.start([task(timeout_ms=20)])
    assert stuck.began.acquire(timeout=SECONDS)
    assert flight.next_deadline() is not None
    (late,) = flight.collect(SECONDS)
    assert isinstance(late.error, HandlerTimeout)
    assert (str(late.error), late.error_type) == ("not done after 20 ms", "Timeout")
    assert stuck.contexts[0].canceled
    assert (flight.running, flight.next_deadline()) == (0, None)
    stuck.let_go.set()
    pool.shutdown()
    assert flight.collect_now() == []


def test_the_slot_of_an_abandoned_handler_goes_to_another_task(store: MemoryStore) -> None:
    stuck, pool = Stuck(), ThreadPool("flight")
    flight = tasks_on(store, stuck.handlers, 1, pool)
    for number in range(3):  # however many hang
        flight.start([task(number, timeout_ms=10)])
        assert stuck.began.acquire(timeout=SECONDS)
        assert names(flight.collect(SECONDS)) == [f"t{number}"]
    flight.start([task(3), task(4)])
    assert stuck.began.acquire(timeout=SECONDS)
    assert len(stuck.contexts) == 4, "one slot is one handler at a time"
    stuck.let_go.set()
    done: list[str] = []
    while len(done) < 2:
        done += names(flight.collect(SECONDS))
    assert done == ["t3", "t4"]
    pool.shutdown()


def test_a_handler_that_returns_while_its_time_is_judged_has_answered(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, threads = Stuck(), Manual()
    flight = tasks_on(store, stuck.handlers, 1, threads)
    flight.start([task(0, timeout_ms=LONG)])
    handling = threading.Thread(target=threads.do_one)
    handling.start()
    assert stuck.began.acquire(timeout=SECONDS)

    def too_late() -> float:
        """The handler returns between the collection of answers and the look at the clock."""
        stuck.let_go.set()
        handling.join()
        return time.monotonic() + LONG

    with monkeypatch.context() as patch:
        patch.setattr(in_flight, "time", SimpleNamespace(monotonic=too_late))
        done = flight.collect_now()
    assert not handling.is_alive()
    assert [each.error for each in [*done, *flight.collect_now()]] == [None]
    flight.start([task(1), task(2)])
    assert len(threads.jobs) == 1, "one slot is one handler at a time"


def test_the_clock_runs_from_the_beginning_of_the_work(store: MemoryStore) -> None:
    threads = Manual()
    remaining: list[float | None] = []

    def work(n: int, context: HandlerContext) -> dict[str, int]:
        remaining.append(context.remaining)
        return {"n": n}

    flight = tasks_on(store, Handlers.of({"F": work}), 1, threads)
    flight.start([task(0), task(1, timeout_ms=LONG)])
    assert flight.next_deadline() is None
    threads.do_one()
    assert names(flight.collect_now()) == ["t0", "t1"]
    assert remaining[0] is None
    assert remaining[1] is not None


def test_a_clock_that_starts_while_somebody_waits_is_kept(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, threads, waits = Stuck(), Manual(), threading.Event()
    flight = tasks_on(store, stuck.handlers, 1, threads)
    deadline = flight.next_deadline
    monkeypatch.setattr(flight, "next_deadline", lambda: (deadline(), waits.set())[0])
    flight.start([task(timeout_ms=20)])
    answers: list[TaskResult] = []
    waiter = threading.Thread(target=lambda: answers.extend(flight.collect()), daemon=True)
    waiter.start()
    assert waits.wait(SECONDS)
    worker = threading.Thread(target=threads.do_one)
    worker.start()
    waiter.join(SECONDS)
    stuck.let_go.set()
    worker.join()
    assert [type(each.error) for each in answers] == [HandlerTimeout]


# -- what is taken away ---------------------------------------------------------------------------------------


def test_handlers_learn_that_their_task_is_no_longer_theirs(store: MemoryStore) -> None:
    stuck, pool = Stuck(), ThreadPool("flight")
    flight = tasks_on(store, stuck.handlers, 3, pool)
    flight.start([task(0), task(1), task(2)])
    for _ in range(3):
        assert stuck.began.acquire(timeout=SECONDS)
    flight.cancel([("t1", 1), ("t2", 1)])
    told = {context.task_id: context.canceled for context in stuck.contexts}
    assert told == {"t0": False, "t1": True, "t2": True}
    stuck.let_go.set()
    pool.shutdown()
    assert len(flight.collect_now()) == 3


def test_what_has_not_begun_can_be_taken_off(store: MemoryStore) -> None:
    threads = Manual()
    flight = tasks_on(store, slots=1, threads=threads)
    flight.start([task(0), task(1), task(2, deaths=1)])
    assert sorted(each.uuid for each in flight.unstarted()) == ["t0", "t1", "t2"]
    assert flight.running == 0
    threads.do_one()
    assert flight.collect_now() == []
    assert flight.unstarted() == []


def test_giving_up_forgets_all_and_tells_the_handlers(store: MemoryStore) -> None:
    stuck, pool = Stuck(), ThreadPool("flight")
    flight = tasks_on(store, stuck.handlers, 1, pool)
    flight.start([task(0), task(1)])
    assert stuck.began.acquire(timeout=SECONDS)
    assert [each.uuid for each in flight.give_up()] == ["t0", "t1"]
    assert stuck.contexts[0].canceled
    assert flight.running == 0
    stuck.let_go.set()
    pool.shutdown()
    assert flight.collect_now() == []
    assert len(stuck.contexts) == 1


def test_a_heartbeat_renews_the_claim_or_ends_the_work(store: MemoryStore) -> None:
    store.save_task(task(epoch=0))
    claimed = store.claim_task(["F"], lease_ms=1000)
    assert claimed is not None
    store.lease_ms = LONG
    stuck, pool = Stuck(), ThreadPool("flight")
    flight = tasks_on(store, stuck.handlers, 1, pool)
    flight.start([claimed])
    assert stuck.began.acquire(timeout=SECONDS)
    stuck.contexts[0].heartbeat()
    renewed = store.get_task("t0")
    assert renewed is not None
    assert renewed.lease_until > claimed.lease_until
    stuck.let_go.set()
    pool.shutdown()


# -- suspects -------------------------------------------------------------------------------------------------


def test_tasks_that_somebody_died_with_are_handled_one_at_a_time(store: MemoryStore) -> None:
    gate, pool = Gate(echo), ThreadPool("flight")
    flight = tasks_on(store, gate, 3, pool)
    flight.start([task(0, deaths=1), task(1, deaths=1), task(2, deaths=2), task(3)])
    gate.called(2)
    assert sorted(call["n"] for call in gate.calls) == [0, 3]
    gate.open()
    done: list[str] = []
    while len(done) < 4:
        done += names(flight.collect(SECONDS))
    assert sorted(done) == ["t0", "t1", "t2", "t3"]
    pool.shutdown()


def test_a_suspect_is_marked_begun_before_its_handler_begins(store: MemoryStore) -> None:
    store.save_task(task(deaths=1))
    claimed = store.claim_task(["F"])
    assert claimed is not None
    started: list[int] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        found = store.get_task("t0")
        assert found is not None
        started.append(found.started)
        return payload

    threads = Manual()
    flight = tasks_on(store, work, 1, threads)
    flight.start([claimed])
    threads.do_one()
    assert len(started) == 1
    assert started[0] > 0
