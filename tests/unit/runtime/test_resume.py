"""Resume: a run goes on from wherever it stands, with the program it was started with."""

from __future__ import annotations

import logging
import warnings

import pytest
from engine_bench import Engine
from runtime_programs import ASK, ASK_TWICE, NUMBER, compiled, giving, step, workflow_of

from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.memory_store import MemoryStore
from afl.runtime.states import StepState
from afl.runtime.types import WorkflowId

DIVIDE = (
    NUMBER
    + """
workflow W(d: Long = 0) => (r: Long) andThen {
    bad = N(n = 1 % $.d)
    after = N(n = bad.n)
    independent = N(n = 7)
    yield W(r = after.n)
}
"""
)


def test_a_failed_run_stays_failed(engine: Engine) -> None:
    engine.run(DIVIDE)
    again = engine.resume()
    assert (again.success, again.status) == (False, ExecutionStatus.ERROR)
    assert "Division by zero" in str(again.error)


def test_too_many_iterations_time_out_and_can_be_resumed(store: MemoryStore) -> None:
    program = compiled(NUMBER + "workflow W() => (o: Long) andThen { a = N(n = 1)\n yield W(o = a.n) }")
    result = Evaluator(store, max_iterations=2).execute(workflow_of(program), None, program)
    assert (result.success, result.status, result.iterations) == (False, ExecutionStatus.TIMEOUT, 2)
    assert "2 iterations" in str(result.error)
    later = Evaluator(store).resume(result.workflow_id, workflow_of(program), program)
    assert (later.status, later.outputs) == (ExecutionStatus.COMPLETED, {"o": 1})


SEVERAL_LEVELS = (
    NUMBER
    + """
facet Sum(a: Long, b: Long) => (s: Long) andThen {
    p = N(n = $.a)
    q = N(n = p.n + $.b)
    yield Sum(s = q.n)
}
workflow W() => (o: Long, ys: [Long]) andThen {
    t = Sum(a = 1, b = 2)
    u = Sum(a = t.s, b = 3)
    yield W(o = u.s)
} andThen foreach x in [1, 2, 3] {
    a = N(n = x)
    yield W(ys = [a.n])
}
"""
)


@pytest.mark.parametrize("limit", range(1, 14))
def test_every_iteration_boundary_is_a_place_to_go_on_from(store: MemoryStore, limit: int) -> None:
    program = compiled(SEVERAL_LEVELS)
    stopped = Evaluator(store, max_iterations=limit).execute(workflow_of(program), None, program)
    assert (stopped.status, stopped.iterations) == (ExecutionStatus.TIMEOUT, limit)
    later = Evaluator(store).resume(stopped.workflow_id, workflow_of(program), program)
    assert (later.error, later.outputs) == (None, {"o": 6, "ys": [1, 2, 3]})


def test_a_run_nobody_started_cannot_be_resumed(engine: Engine) -> None:
    result = engine.evaluator.resume(WorkflowId("nope"), {"name": "W"})
    assert (result.success, result.status, result.workflow_id) == (False, ExecutionStatus.ERROR, "nope")
    assert str(result.error) == "there is no run nope in this store"


def test_resume_ignores_inputs(engine: Engine) -> None:
    engine.run(ASK, {"i": 1})
    result = engine.evaluator.resume(engine.run_id, engine.workflow, engine.program, {"i": 99})
    assert result.status == ExecutionStatus.PAUSED
    assert result.pending_events[0].payload == {"i": 1}


def test_resume_needs_no_program(engine: Engine) -> None:
    engine.run(ASK_TWICE)
    for value in (10, 20):
        (waiting,) = engine.waiting
        engine.evaluator.continue_step(waiting.id, {"o": value})
        result = Evaluator(engine.store).resume(engine.run_id, engine.workflow)
    assert result.outputs == {"r": 20}


def test_the_stored_program_wins_over_another_one(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.run(ASK)
    other = {"name": "Other", "body": {"steps": [step("z", "Z")], "yield": giving("Other", r=0)}}
    (waiting,) = engine.waiting
    engine.evaluator.continue_step(waiting.id, {"o": 5})
    with warnings.catch_warnings(record=True) as caught, caplog.at_level(logging.WARNING):
        warnings.simplefilter("always")
        result = engine.evaluator.resume(engine.run_id, other, {"declarations": []})
    assert result.outputs == {"r": 5}
    assert [record.levelname for record in caplog.records] == ["WARNING"] or len(caught) == 1


def test_the_same_program_gives_no_warning(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.run(ASK)
    with caplog.at_level(logging.WARNING):
        engine.answer(o=1)
    assert caplog.records == []


def test_a_run_held_by_a_live_evaluator_is_left_to_it(engine: Engine) -> None:
    engine.run(ASK)
    engine.evaluator.continue_step(engine.waiting[0].id, {"o": 1})
    held = engine.store.take_run(engine.run_id, lease_ms=60_000)
    assert held is not None
    result = engine.resume()
    assert (result.success, result.status) == (True, ExecutionStatus.PAUSED)
    assert engine.run_id in result.held_by
    assert engine.step("a").state == StepState.EVENT_TRANSMIT
    engine.store.release_run(held)
    assert engine.resume().outputs == {"r": 1}


def test_two_evaluators_on_one_store_share_runs(engine: Engine) -> None:
    engine.run(ASK)
    other = Evaluator(engine.store)
    assert other.continue_step(engine.waiting[0].id, {"o": 3})
    assert other.resume(engine.run_id, engine.workflow).outputs == {"r": 3}
    assert engine.resume().outputs == {"r": 3}
