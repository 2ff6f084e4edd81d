"""One run is one trace, whoever works on it, and every span of it has its place."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import StatusCode
from runtime_programs import ASK_TWICE, compiled
from support.agents import DOUBLE, submit
from support.traces import Traces, traced

from afl.kernel import telemetry
from afl.kernel.telemetry import split, trace_id_of
from afl.models import ScriptedModel, Usage
from afl.models.scripted import calls
from afl.operations.run.control import cancel
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.monitoring.tracing import traceparent_of_task
from afl.runtime.program.program import Program
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.task_handlers.model_handler import model_handler
from afl.runtime.types import StepId


def run(store: MemoryStore, handlers: dict[str, Any], source: str = ASK_TWICE) -> ExecutionResult:
    program = Program({"program": compiled(source), "workflow": "ns.W"})
    with LocalRunner(Evaluator(store), Handlers.of(handlers)) as runner:
        return runner.run(program)


def without_evaluations(told: Traces) -> list[str]:
    """How often a run is evaluated is its own affair."""
    return [line for line in told.parents() if line != "afl.evaluation < afl.run"]


def test_a_function_and_a_model_with_a_tool_are_one_trace(store: MemoryStore) -> None:
    def dictionary(word: str) -> str:
        return word.upper()

    replies = [
        calls("dictionary", {"word": "x"}, usage=Usage(1_000, 20)),
        calls("Second", {"o": 5}, usage=Usage(1_500, 30)),
    ]
    model = ScriptedModel(replies, name="claude-sonnet-4-5")
    with traced() as told:
        handlers = {
            "First": lambda i: {"o": i + 1},
            "Second": model_handler(model, store, tools=[dictionary]),
        }
        result = run(store, handlers)
        assert result.outputs == {"r": 5}
        assert told.traces == {trace_id_of(result.workflow_id)}
        assert without_evaluations(told) == [
            "afl.handler < afl.task",
            "afl.handler < afl.task",
            "afl.model < afl.handler",
            "afl.model < afl.handler",
            "afl.run < -",
            "afl.task < afl.run",
            "afl.task < afl.run",
            "afl.tool < afl.handler",
        ]
        first, second = told.named("afl.model")
        about = dict(first.attributes or {})
        assert about["gen_ai.request.model"] == "claude-sonnet-4-5"
        assert (about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"]) == (1_000, 20)
        assert about["afl.cost_usd"] == 0.0033
        assert dict(second.attributes or {})["gen_ai.usage.input_tokens"] == 1_500
        assert dict(told.named("afl.tool")[0].attributes or {})["tool"] == "dictionary"
        assert {dict(span.attributes or {})["afl.facet"] for span in told.named("afl.task")} == {
            "ns.First",
            "ns.Second",
        }


def test_a_failure_marks_its_handler_its_task_and_its_run(store: MemoryStore) -> None:
    def broken(i: int) -> None:
        raise OSError("no such page")

    with traced() as told:
        assert not run(store, {"First": broken, "Second": broken}).success
        for name in ("afl.handler", "afl.task", "afl.run"):
            (span,) = told.named(name)
            assert span.status.status_code is StatusCode.ERROR
            assert "no such page" in (span.status.description or "")


def test_each_attempt_is_a_handler_of_the_same_task(store: MemoryStore) -> None:
    source = ASK_TWICE.replace("First(i = $.i)", "First(i = $.i) with Retry(attempts = 3, backoff = 1)")
    attempts: list[int] = []

    def flaky(i: int, context: HandlerContext) -> dict[str, int]:
        attempts.append(context.attempt)
        if len(attempts) < 3:
            raise OSError("not yet")
        return {"o": 1}

    with traced() as told:
        assert run(store, {"First": flaky, "Second": lambda i: {"o": i}}, source).outputs == {"r": 1}
        first = [s for s in told.named("afl.handler") if dict(s.attributes or {})["afl.facet"] == "ns.First"]
        assert [dict(span.attributes or {})["afl.attempt"] for span in first] == [1, 2, 3]
        assert len({span.parent.span_id for span in first if span.parent}) == 1
        assert len(told.named("afl.task")) == 2


def test_a_handler_is_told_its_place(store: MemoryStore) -> None:
    seen: list[str] = []

    def first(i: int, context: HandlerContext) -> dict[str, int]:
        seen.append(context.traceparent)
        with telemetry.span("mine"):
            seen.append(context.traceparent)
        return {"o": i}

    with traced() as told:
        result = run(store, {"First": first, "Second": lambda i: {"o": i}})
        assert "mine < afl.handler" in told.parents()
        (mine,) = told.named("mine")
        assert split(seen[1]) == (mine.context.trace_id, mine.context.span_id)
    (task,) = [t for t in store.get_tasks_by_workflow(result.workflow_id) if t.name == "ns.First"]
    context = HandlerContext.of(task, lambda entry: None, lambda: True)
    assert context.traceparent == traceparent_of_task(task), "without tracing it is the task's own place"
    assert seen[0].split("-")[1] == trace_id_of(result.workflow_id)


def test_a_runner_tells_the_same(store: MemoryStore) -> None:
    with traced() as told:
        run_id = submit(store, "ns.Twice", {"n": 3}, DOUBLE)
        handlers = Handlers.of({"Double": lambda n: {"m": 2 * n}})
        service = RunnerService(store, Evaluator(store), RunnerConfig(), handlers=handlers)
        while store.get_run(run_id).state != "completed":  # type: ignore[union-attr]
            service.run_once()
        assert told.traces == {trace_id_of(run_id)}
        assert without_evaluations(told) == [
            "afl.handler < afl.task",
            "afl.handler < afl.task",
            "afl.run < -",
            "afl.task < afl.run",
            "afl.task < afl.run",
        ]


def test_the_trace_of_a_canceled_run_ends_with_it(store: MemoryStore) -> None:
    with traced() as told:
        run_id = submit(store)
        Evaluator(store).resume(run_id)
        cancel(store, run_id, by="ada")
        assert without_evaluations(told) == ["afl.run < -", "afl.task < afl.run"]
        (ended,) = told.named("afl.run")
        assert ended.status.description == "canceled by operator ada"


def test_a_step_that_an_operator_continues_is_told_as_well(store: MemoryStore) -> None:
    with traced() as told:
        run_id, evaluator = submit(store), Evaluator(store)
        evaluator.resume(run_id)
        evaluator.continue_step(StepId(f"{run_id}/0/d"), {"m": 1})
        evaluator.resume(run_id)
        assert without_evaluations(told) == ["afl.run < -", "afl.task < afl.run"]
