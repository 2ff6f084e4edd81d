"""ClaudeAgentRunner: a model drives a run, in this process, one step after another.

It evaluates the run until it waits for outside work, does that work itself (by a registered function, else by the
model), and goes on until the run ends. Its tasks are in a list of their own, so nobody else takes them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any

from afl.kernel import event_loop
from afl.kernel.ids import random_id
from afl.models.conversation import CORRECTIONS, ROUNDS
from afl.models.messages import MAX_TOKENS
from afl.models.model import Model, OnText
from afl.models.schema import PythonTool
from afl.models.usage import PRICES, Prices
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.errors import WorkflowRuntimeError
from afl.runtime.evaluation.execution import ExecutionResult, ExecutionStatus
from afl.runtime.evaluator import Evaluator
from afl.runtime.monitoring.usage import BudgetExceeded, check_limits
from afl.runtime.monitoring.usage_store import budget_store
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.task_handlers.metered_model import Place
from afl.runtime.task_handlers.model_handler import ModelHandler
from afl.runtime.task_handlers.tool_definition import ToolDefinition
from afl.runtime.task_handlers.tool_registry import ToolRegistry
from afl.runtime.types import StepId, WorkflowId

__all__ = ["ClaudeAgentRunner", "NoHandlerError", "ToolDefinition", "ToolRegistry"]

DEFAULT_MODEL = "claude-sonnet-4-20250514"


class NoHandlerError(
    WorkflowRuntimeError, builtins.RuntimeError, hint="Register a handler for the facet, or a default one."
):
    """Nobody here can do the work of a facet; the run waits for somebody who can."""


class ClaudeAgentRunner:
    """Runs workflows with functions and a model; synchronous, in one thread, without the task queue.

    `model` is the name of a model for `anthropic_client`, or any `Model`. `tools` are Python functions that the model
    may call. An answer that does not fit goes back up to `corrections` times, then the step fails.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        persistence: PersistenceAPI,
        *,
        anthropic_client: Any = None,
        model: str | Model = DEFAULT_MODEL,
        system_prompt: str | None = None,
        tool_registry: ToolRegistry | None = None,
        max_dispatches: int = 100,
        tools: Sequence[Callable[..., Any] | PythonTool] = (),
        max_tokens: int = MAX_TOKENS,
        corrections: int = CORRECTIONS,
        rounds: int = ROUNDS,
        prices: Prices = PRICES,
        on_text: OnText | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._persistence = persistence
        self._registry = tool_registry if tool_registry is not None else ToolRegistry()
        self._max_dispatches = max_dispatches
        self._task_list = f"claude-agent-runner:{random_id()}"
        chosen = _model(model, anthropic_client)
        self._handler = (
            None
            if chosen is None
            else ModelHandler(
                chosen,
                persistence,
                tools=tools,
                system=system_prompt or "",
                max_tokens=max_tokens,
                corrections=corrections,
                rounds=rounds,
                prices=prices,
                on_text=on_text,
            )
        )

    def run(
        self,
        workflow_ast: dict[str, Any],
        inputs: dict[str, Any] | None = None,
        program_ast: dict[str, Any] | None = None,
        *,
        task_description: str | None = None,
        budget_usd: float | None = None,
        budget_tokens: int | None = None,
    ) -> ExecutionResult:
        """Run a workflow to its end.

        PAUSED after `max_dispatches` steps, or, with the reason as `error`, when the budget is used up; `resume` goes
        on.
        """
        budgets = None
        if budget_usd is not None or budget_tokens is not None:
            check_limits(budget_usd, budget_tokens)
            budgets = budget_store(self._persistence)
        result = self._evaluator.execute(workflow_ast, inputs, program_ast, task_list=self._task_list)
        if budgets is not None:  # in time: nothing outside is done before the run waits for it
            budgets.set_budget(result.workflow_id, usd=budget_usd, tokens=budget_tokens)
        return self._drive(result, task_description or "")

    def resume(self, workflow_id: WorkflowId, *, task_description: str | None = None) -> ExecutionResult:
        """Go on with a run that paused, also one that a process left behind which died."""
        self._persistence.unpause_run(workflow_id)
        return self._drive(self._evaluator.resume(workflow_id), task_description or "")

    def _drive(self, result: ExecutionResult, task: str) -> ExecutionResult:
        left = self._max_dispatches
        while result.status == ExecutionStatus.PAUSED and left > 0:
            waiting = self._waiting(result.workflow_id)[:left]
            if not waiting:
                break
            left -= len(waiting)
            try:
                with event_loop.in_calling_thread():
                    for step in waiting:
                        self._dispatch(step, task)
            except BudgetExceeded as reached:
                return self._paused(result.workflow_id, reached)
            result = self._evaluator.resume(result.workflow_id)
        return result

    def _waiting(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """The steps that nobody has done yet, and nobody else does; none while the run is paused by somebody."""
        run = self._persistence.get_run(workflow_id)
        if run is None or run.state == RunnerState.PAUSED:
            return []
        done = {mark.step_id for mark in self._persistence.get_marks(workflow_id)}
        tasks = self._persistence.get_tasks_by_workflow(workflow_id)
        done |= {StepId(task.step_id) for task in tasks if task.via and task.state == TaskState.PENDING}
        steps = self._persistence.get_open_steps(workflow_id)
        return [step for step in steps if step.state == StepState.EVENT_TRANSMIT and step.id not in done]

    def _dispatch(self, step: StepDefinition, task: str) -> None:
        """Do the work of one step; what goes wrong with it is the step's failure."""
        payload = {name: attribute.value for name, attribute in step.attributes.params.items()}
        if not self._registry.has_handler(step.facet_name) and self._handler is None:
            raise NoHandlerError(
                f"No handler registered for event facet '{step.facet_name}' and no anthropic_client to ask; "
                "register a function or give a client"
            )
        try:
            answer = self._answer(step, payload, task)
        except BudgetExceeded:
            raise
        except Exception as error:
            self._evaluator.fail_step(step.id, str(error) or type(error).__name__)
        else:
            self._evaluator.continue_step(step.id, answer)

    def _answer(self, step: StepDefinition, payload: dict[str, Any], task: str) -> dict[str, Any] | None:
        if self._registry.has_handler(step.facet_name):
            return self._registry.handle(step.facet_name, payload)
        assert self._handler is not None
        work = self._persistence.get_task_by_step(step.id)
        place = Place(step.workflow_id, step.id, "" if work is None else work.uuid)
        facet = self._evaluator.programs.of_run(step.workflow_id).declarations[step.facet_name]
        return self._handler.answer(facet, payload, place, task=task)

    def _paused(self, workflow_id: WorkflowId, reached: BudgetExceeded) -> ExecutionResult:
        """Store what was done, and that the run waits for a larger budget."""
        result = self._evaluator.resume(workflow_id)
        if result.status == ExecutionStatus.PAUSED:
            self._persistence.pause_run(workflow_id, str(reached))
            result.error = reached
        return result


def _model(model: str | Model, client: Any) -> Model | None:
    if not isinstance(model, str):
        return model
    if client is None:
        return None
    from afl.models.claude import ClaudeModel  # noqa: PLC0415  needs an extra

    return ClaudeModel(model, client=client)
