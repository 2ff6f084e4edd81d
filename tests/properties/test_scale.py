"""Large runs: memory does not grow with the number of steps, nor the work of a resume with that of elements, nor what a
repeat leaves behind with its iterations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from support.agents import Recorder

from afl.kernel.database import Database, Query, Row, Transaction, connect
from afl.language import compile_source
from afl.runtime.evaluation.outcome import completed
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store import SqlStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId, WorkflowId

T = TypeVar("T")

PLAIN = """
facet Next(n: Long) => (m: Long) andThen { yield Next(m = $.n + 1) }
workflow W(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
    a = Next(n = n)
    yield W(all = [a.m])
}
"""
EVENTS = PLAIN.replace("facet", "event facet").replace("andThen { yield Next(m = $.n + 1) }", "")
SMALL = Pace(commit_steps=256, cached_steps=500, foreach_window=64)


def program_of(source: str) -> Program:
    return Program({"program": compile_source(source).program, "workflow": "W"})


def peak_of(source: str, elements: int, pace: Pace) -> int:
    """The most steps that were in memory at a commit of a run over so many elements."""
    store, peak = MemoryStore(), 0
    session = Evaluator(store, pace=pace).begin(program_of(source), {"list": list(range(elements))})

    def look(written: Any) -> None:
        nonlocal peak
        peak = max(peak, session.context.cached_steps)

    session.observe = look
    session.advance()
    session.close()
    assert session.run.outputs == {"all": list(range(1, elements + 1))}
    store.close()
    return peak


def test_thousands_of_elements_stay_in_order_and_out_of_memory() -> None:
    # A window of 64 elements has at most six steps each in flight beside the 500 that are kept.
    most = peak_of(PLAIN, 4_000, SMALL)
    assert most <= 500 + 64 * 6 + 10
    assert most <= peak_of(PLAIN, 1_000, SMALL) * 1.1


def test_thousands_of_tasks_are_handled_in_a_small_memory() -> None:
    store = MemoryStore()
    handlers = Handlers.of({"Next": lambda n: {"m": n + 1}})
    with LocalRunner(Evaluator(store, pace=SMALL), handlers) as runner:
        result = runner.run(program_of(EVENTS), {"list": list(range(3_000))})
    assert result.outputs == {"all": list(range(1, 3_001))}
    states = Counter(task.state for task in store.get_tasks_by_workflow(result.workflow_id))
    assert states == {"completed": 3_000}
    store.close()


def test_another_attempt_does_not_make_every_later_answer_read_the_whole_run() -> None:
    store, failed = Recorder(MemoryStore()), []

    def next_of(n: int) -> dict[str, int]:
        if n == 3 and not failed:
            failed.append(n)
            raise ValueError("once")
        return {"m": n + 1}

    source = EVENTS.replace("Next(n = n)", "Next(n = n) with Retry(attempts = 2, backoff = 1)")
    with LocalRunner(Evaluator(store.api), Handlers.of({"Next": next_of}), concurrency=1) as runner:
        result = runner.run(program_of(source), {"list": list(range(50))})
    assert (result.outputs, failed) == ({"all": list(range(1, 51))}, [3])
    assert store.count("requeue") == 1
    assert store.count("get_tasks_by_workflow") == 0


class Counting:
    """A database that counts statements, the rows they give and the rows they write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.rows = Counter[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def select(self, query: Query, /, **params: Any) -> list[Row]:
        return self.read(lambda tx: tx.all(query, **params))

    def atomic(self, query: Query, /, **params: Any) -> list[Row]:
        return self.write(lambda tx: tx.all(query, **params))

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self._database.read(lambda tx: work(CountingTransaction(tx, self.rows)))

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self._database.write(lambda tx: work(CountingTransaction(tx, self.rows)))


class CountingTransaction(Transaction):
    """A transaction that counts for its database."""

    def __init__(self, tx: Transaction, rows: Counter[str]) -> None:
        self._tx = tx
        self._rows = rows

    def all(self, query: Query, /, **params: Any) -> list[Row]:
        found = self._tx.all(query, **params)
        self._rows["read"] += len(found)
        self._rows["statements"] += 1
        return found

    def one(self, query: Query, /, **params: Any) -> Row | None:
        self._rows["read"] += 1
        self._rows["statements"] += 1
        return self._tx.one(query, **params)

    def run(self, query: Query, /, **params: Any) -> int:
        hit = self._tx.run(query, **params)
        self._rows["written"] += hit
        self._rows["statements"] += 1
        return hit

    def many(self, query: Query, rows: Any, /) -> int:
        self._rows["written"] += len(rows)
        self._rows["statements"] += 1
        return self._tx.many(query, rows)


def cost_of_a_resume(elements: int, answered: int) -> Counter[str]:
    """Rows read and written to go on with a run after so many of its tasks."""
    database = Counting(connect("memory://"))
    store = SqlStore(database)  # type: ignore[arg-type]
    program = program_of(EVENTS)
    node = dict(program.workflow.ast, name="W")
    result = Evaluator(store).execute(node, {"list": list(range(elements))}, program.compiled["program"])
    assert result.status == ExecutionStatus.PAUSED
    tasks = store.get_tasks_by_workflow(result.workflow_id)
    assert len(tasks) == elements
    database.rows.clear()
    evaluator = Evaluator(store)
    for task in tasks[-answered:]:
        assert evaluator.continue_step(StepId(task.step_id), {"m": 1})
    assert Evaluator(store).resume(result.workflow_id).status == ExecutionStatus.PAUSED
    cost = Counter(database.rows)
    store.close()
    return cost


@pytest.mark.parametrize("answered", [1, 20])
def test_a_resume_costs_the_same_whatever_the_number_of_elements(answered: int) -> None:
    few, many = cost_of_a_resume(50, answered), cost_of_a_resume(2_000, answered)
    assert few == many
    assert few["read"] < 20 + 20 * answered


LOOP = """
event facet Next(n: Long) => (m: Long)
facet Twice(n: Long) => (m: Long) andThen {
    a = Next($.n)
    yield Twice(m = a.m)
}
workflow W(end: Long) => (n: Long = 0, seen: [Long] = []) andThen repeat last {
    a = Twice(last.n)
    b = Twice(a.m) andThen foreach x in [1, 2] { yield W(seen = [x]) }
    yield W(n = a.m)
} until last.n >= $.end
"""


def test_an_iteration_costs_the_same_however_many_there_were() -> None:
    database = Counting(connect("memory://"))
    store = SqlStore(database)  # type: ignore[arg-type]
    pace = Pace(
        commit_seconds=3_600
    )  # what is kept depends on when it is stored, and that not on the machine
    session = Evaluator(store, pace=pace).begin(program_of(LOOP), {"end": 2_000}, serves=lambda task: True)
    costs: dict[int, Counter[str]] = {}
    peaks = Counter[str]()
    session.advance()
    session.settle()
    while not session.run.is_over:
        (task,) = session.tasks
        number = task.params["n"]
        database.rows.clear()
        step = session.context.require_step(StepId(task.step_id))
        session.deliver([completed(session.context.program, step, task, {"m": number + 1})])
        session.advance()
        session.settle()
        costs[number] = Counter(database.rows)
        peaks["early" if number < 500 else "late"] = max(
            peaks["early" if number < 500 else "late"], session.context.cached_steps
        )
    assert session.run.outputs == {"n": 2_000, "seen": [1, 2]}
    assert costs[100] == costs[1_900]
    assert peaks["late"] <= peaks["early"]
    run = WorkflowId(session.run.workflow_id)
    assert len(store.get_steps_by_workflow(run)) == 2 + 11 * 12
    assert len(store.get_tasks_by_workflow(run)) == 11
    store.close()
