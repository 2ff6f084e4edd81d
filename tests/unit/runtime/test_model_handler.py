"""A model as a handler among functions."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.models.test import TestModel
from runtime_programs import ASK_TWICE, compiled

from afl.kernel.errors import InputError
from afl.models import ModelSettings, ScriptedModel, Usage
from afl.models.scripted import calls
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.usage import BudgetExceeded
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store.usage import SqlUsage
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.task_handlers.model_handler import model_handler


def run(store: MemoryStore, handlers: dict[str, Any]) -> Any:
    program = Program({"program": compiled(ASK_TWICE), "workflow": "ns.W"})
    with LocalRunner(Evaluator(store), Handlers.of(handlers)) as runner:
        return runner.run(program)


def test_models_and_functions_serve_one_workflow(store: MemoryStore) -> None:
    model = ScriptedModel([calls("Second", {"o": "no"}), calls("Second", {"o": 5})])
    result = run(store, {"First": lambda i: {"o": i + 1}, "ns.Second": model_handler(model, store)})
    assert result.outputs == {"r": 5}
    usage = SqlUsage(store.database).get_usage(result.workflow_id)
    assert len(usage) == 2
    second = next(t for t in store.get_tasks_by_workflow(result.workflow_id) if t.name == "ns.Second")
    assert {(record.step_id, record.task_id) for record in usage} == {(second.step_id, second.uuid)}


def test_one_handler_serves_every_facet(store: MemoryStore) -> None:
    model = ScriptedModel(lambda request: calls(request.tools[-1].name, {"o": 7}))
    ask = model_handler(model, store)
    assert run(store, {"First": ask, "Second": ask}).outputs == {"r": 7}
    assert [request.tools[-1].name for request in model.requests] == ["First", "Second"]


def test_each_facet_has_its_model_and_settings(store: MemoryStore) -> None:
    model = ScriptedModel(lambda request: calls(request.tools[-1].name, {"o": 7}))
    cold = model_handler(model, store, settings=ModelSettings(temperature=0, thinking="low"))
    assert run(store, {"First": cold, "Second": model_handler(TestModel(), store)}).outputs == {"r": 0}
    (request,) = model.requests
    assert request.settings == ModelSettings(temperature=0, thinking="low")


def test_an_answer_that_never_fits_fails_the_step(store: MemoryStore) -> None:
    ask = model_handler(ScriptedModel(lambda request: "I do not know."), store, corrections=1)
    result = run(store, {"First": ask, "Second": ask})
    assert not result.success
    assert "gave no answer for First: no fitting answer after 2 attempts" in str(result.error)


def test_a_facet_that_the_run_does_not_have_is_refused(store: MemoryStore) -> None:
    ask = model_handler(ScriptedModel(lambda request: calls(request.tools[-1].name, {"o": 7})), store)
    result = run(store, {"First": ask, "Second": ask})
    context = HandlerContext("task", "step", result.workflow_id, "ns.Third", 1)
    with pytest.raises(InputError, match=r"has no facet ns\.Third"):
        ask.handle({}, context)


def test_a_budget_that_is_used_up_is_no_failure_of_the_work(store: MemoryStore) -> None:
    model = ScriptedModel(lambda request: calls(request.tools[-1].name, {"o": 7}, usage=Usage(1000, 9000)))
    ask = model_handler(model, store)
    result = run(store, {"First": ask, "Second": ask})
    SqlUsage(store.database).set_budget(result.workflow_id, tokens=20_000)
    context = HandlerContext("task", "step", result.workflow_id, "ns.First", 1)
    with pytest.raises(BudgetExceeded, match="budget of 20000 tokens is used up: 20000 spent") as refused:
        ask.handle({"i": 1}, context)
    assert refused.value.workflow_id == result.workflow_id
    assert len(model.requests) == 2


def test_prompts_and_replies_are_kept_unless_they_are_switched_off(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exchanges(**options: Any) -> list[list[str]]:
        model = ScriptedModel(lambda request: calls(request.tools[-1].name, {"o": 7}))
        ask = model_handler(model, store, **options)
        result = run(store, {"First": lambda i: {"o": i}, "Second": ask})
        (step,) = {each.step_id for each in SqlUsage(store.database).get_usage(result.workflow_id)}
        found = SqlUsage(store.database).get_calls(result.workflow_id, step, 10)
        return [[part.kind for part in each.exchange.reply] for each in found if each.exchange is not None]

    assert exchanges() == [["tool-call"]]
    assert exchanges(keep_exchanges=False) == []
    monkeypatch.setenv("AFL_MODEL_CALLS_DAYS", "0")
    assert exchanges() == []
