"""Repeat: what the variable has, what an iteration leaves to the next, and the ends of a loop."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from support.agents import LONG, program, run_of, store_results

from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.handlers import repeat
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.signals import signal
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId
from afl.runtime.worker.held_runs import HeldRuns
from afl.runtime.worker.results import TaskResult

PURE = "facet N(n: Long) => (m: Long) andThen { yield N(m = $.n + 1) }\n"
ASK = "event Ask(n: Long) => (m: Long)\n"
CLIMB = (
    ASK
    + """workflow W(end: Long, most: Long = 100) => (n: Long = 0) andThen repeat last limit $.most {
    a = Ask(last.n)
    yield W(n = a.m)
} until last.n >= $.end"""
)


def outputs(engine: Engine, source: str, **inputs: Any) -> dict[str, Any]:
    result = engine.run(source, inputs)
    assert result.error is None
    return result.outputs


def failure(result: ExecutionResult) -> StepFailure:
    assert result.status == ExecutionStatus.ERROR
    assert isinstance(result.error, StepFailure)
    return result.error


def climbed(engine: Engine, result: ExecutionResult, to: int) -> ExecutionResult:
    for n in range(to):
        result = engine.answer(m=n + 1)
    return result


def test_before_the_first_iteration_the_variable_has_the_defaults_or_null(engine: Engine) -> None:
    source = """workflow W(from: Long) => (n: Long = 7, t: String, seen: [Json] = []) andThen repeat last {
        yield W(n = last.n * 2, t = "now", seen = last.seen ++ [last.n, $.last.t])
    } until len(last.seen) == 4"""
    assert outputs(engine, source, **{"from": 1}) == {"n": 28, "t": "now", "seen": [7, None, 14, "now"]}


def test_it_runs_at_least_once(engine: Engine) -> None:
    assert outputs(
        engine, PURE + "workflow W() => (n: Long = 5) andThen repeat x { yield W(n = 6) } until true"
    ) == {"n": 6}


def test_an_iteration_replaces_values_and_lists_and_keeps_what_it_does_not_yield(engine: Engine) -> None:
    source = (
        PURE
        + """workflow W() => (n: Long = 0, list: [Long], once: String) andThen repeat last {
        a = N(last.n) andThen when {
            case last.n == 0 => { yield N(m = 1) yield W(once = "first") }
            case _ => { yield N(m = last.n + 1) }
        }
        b = N(a.m) andThen foreach x in [1, 2] { yield W(list = [x * a.m]) }
        yield W(n = a.m)
    } until last.n == 3"""
    )
    assert outputs(engine, source) == {"n": 3, "list": [3, 6], "once": "first"}


def test_blocks_beside_a_repeat_keep_what_they_yield(engine: Engine) -> None:
    source = """workflow W() => (a: Long, b: Long = 0, list: [Long] = [])
    andThen { yield W(a = 1, list = [1]) }
    andThen repeat last { yield W(b = last.b + 1, list = last.list ++ [9]) } until last.b == 2"""
    assert outputs(engine, source) == {"a": 1, "b": 2, "list": [1, 9, 9]}


def test_the_body_of_an_event_facet_begins_with_the_answer(engine: Engine) -> None:
    source = """event Ask(n: Long) => (m: Long) andThen repeat last { yield Ask(m = last.m + 1) } until last.m >= 10
    workflow W() => (m: Long) andThen { a = Ask(1) yield W(m = a.m) }"""
    engine.run(source)
    assert engine.answer(m=7).outputs == {"m": 10}


def test_an_inline_body_sees_steps_around_it_in_all_its_parts(engine: Engine) -> None:
    source = (
        ASK
        + PURE
        + """workflow W() => (m: Long) andThen {
        end = Ask(1)
        a = N(0) andThen repeat last limit end.m { yield N(m = coalesce(last.m, $.n) + end.m) } until last.m > end.m
        yield W(m = a.m)
    }"""
    )
    engine.run(source)
    assert engine.answer(m=5).outputs == {"m": 10}


def test_a_loop_in_a_loop(engine: Engine) -> None:
    source = """facet Inner(to: Long) => (n: Long = 0) andThen repeat last {
        yield Inner(n = last.n + 1)
    } until last.n == $.to
    workflow W() => (sum: Long = 0, i: Long = 0) andThen repeat last {
        a = Inner(to = last.i + 1)
        yield W(sum = last.sum + a.n, i = last.i + 1)
    } until last.i == 4"""
    assert outputs(engine, source) == {"sum": 10, "i": 4}


def test_a_failed_iteration_fails_the_loop_and_the_catch_sees_it(engine: Engine) -> None:
    source = """workflow W() => (n: Long = 3, why: String) andThen repeat last {
        yield W(n = 6 % last.n)
    } until last.n > 3 catch { yield W(why = $.error_type) }"""
    assert outputs(engine, source) == {"n": 0, "why": "EvaluationError"}


def test_the_limit(engine: Engine) -> None:
    result = climbed(engine, engine.run(CLIMB, {"end": 9, "most": 3}), 3)
    assert failure(result).error_type == "IterationLimit"
    assert "after 3 iterations" in failure(result).message
    assert failure(result).line == 2


@pytest.mark.parametrize("most", [0, -1])
def test_a_computed_limit_that_makes_no_sense_fails_before_anything_runs(engine: Engine, most: int) -> None:
    result = engine.run(CLIMB, {"end": 9, "most": most})
    assert failure(result).error_type == "TypeMismatch"
    assert f"at least 1, got {most}" in failure(result).message
    assert engine.tasks == []


def test_a_condition_that_is_not_boolean_or_fails_fails_the_loop(engine: Engine) -> None:
    source = "workflow W() => (j: Json) andThen repeat last { yield W(j = 1) } until last.j"
    assert "'until'" in failure(engine.run(source)).message
    source = "workflow W() => (n: Long) andThen repeat last { yield W(n = 0) } until 1 % last.n == 0"
    assert "Division by zero" in failure(engine.run(source)).message


ENDLESS = "workflow W() => (n: Long = 0) andThen repeat last { yield W(n = last.n + 1) } until last.n < 0"


def test_a_loop_without_outside_work_ends_with_an_error(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert repeat.IDLE_ITERATIONS > 1000
    monkeypatch.setattr(repeat, "IDLE_ITERATIONS", 1000)
    problem = failure(engine.run(ENDLESS))
    assert problem.error_type == "LoopWithoutProgress"
    assert "1,000 iterations" in problem.message
    assert len(engine.store.get_steps_by_workflow(engine.run_id)) == 2 + 2 * 11


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeat, "IDLE_ITERATIONS", 50)


@pytest.mark.usefixtures("impatient")
def test_idle_iterations_are_counted_across_evaluators(store: MemoryStore, engine: Engine) -> None:
    engine.evaluator = Evaluator(store, max_iterations=90)
    result = engine.run(ENDLESS)
    assert result.status == ExecutionStatus.TIMEOUT
    engine.evaluator = Evaluator(store)
    assert failure(engine.resume()).error_type == "LoopWithoutProgress"
    (loop,) = [step for step in store.get_steps_by_workflow(engine.run_id) if step.object_type == "AndRepeat"]
    assert loop.progress is not None
    assert loop.progress.opened == 50


@pytest.mark.usefixtures("impatient")
def test_outside_work_now_and_then_is_progress(engine: Engine) -> None:
    source = (
        ASK
        + PURE
        + """facet Rest(n: Long) => (m: Long) andThen when {
        case $.n % 40 == 0 => { a = Ask($.n) yield Rest(m = a.m) }
        case _ => { yield Rest(m = $.n + 1) }
    }
    workflow W() => (n: Long = 1) andThen repeat last { a = Rest(last.n) yield W(n = a.m) } until last.n > 81"""
    )
    engine.run(source)
    for n in (41, 81):
        result = engine.answer(m=n)
    assert result.outputs == {"n": 82}


def test_what_failed_in_an_iteration_is_tried_again_from_there(engine: Engine) -> None:
    climbed(engine, engine.run(CLIMB, {"end": 3}), 2)
    (waiting,) = engine.waiting
    engine.evaluator.fail_step(waiting.id, "no")
    assert failure(engine.resume()).message == "no"
    assert engine.evaluator.retry(engine.run_id) == 1
    engine.resume()
    assert engine.answer(m=3).outputs == {"n": 3}
    assert run_of(engine.store, engine.run_id).state == RunnerState.COMPLETED


def test_a_result_of_a_removed_iteration_comes_too_late_and_harms_nobody(
    store: MemoryStore, engine: Engine
) -> None:
    """Somebody else answered for a handler that hangs, and the loop went on for a while."""
    engine.run(CLIMB, {"end": 13})
    (task,) = store.claim_tasks(["Ask"], limit=1, lease_ms=LONG)
    climbed(engine, engine.evaluator.resume(engine.run_id), 12)
    assert store.get_step(StepId(task.step_id)) is None
    told: list[str | None] = []
    runs = HeldRuns(engine.evaluator, stored=lambda result, problem: told.append(problem))
    store_results(engine.evaluator, runs, [TaskResult(task, {"m": 99})])
    assert told == ["its result came too late: it was no longer needed"]
    assert engine.answer(m=13).outputs == {"n": 13}


def test_timers_and_signals_of_removed_iterations_go_with_them(store: MemoryStore) -> None:
    source = """event Paid(n: Long) => (m: Long) with Signal("paid")
    workflow W() => (n: Long = 0) andThen repeat last {
        a = Paid(last.n)
        pause = sys.Sleep(ms = 1) with After(a)
        yield W(n = a.m)
    } until last.n == 15"""
    evaluator = Evaluator(store)
    run = evaluator.submit(program("W", source), {})
    evaluator.resume(run)
    for n in range(15):
        signal(evaluator, run_of(store, run), "paid", {"m": n + 1})
    with LocalRunner(evaluator, Handlers.of({})) as runner:
        assert runner.resume(run).outputs == {"n": 15}
    assert len(store.get_tasks_by_workflow(run)) == 2 * 11
