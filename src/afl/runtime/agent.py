"""ClaudeAgentRunner: a model drives a run, in this process, one step after another.

It is a worker without threads for the tasks of one run; the handler of each is a registered function, else the model.
The tasks of its runs are in a list of their own, so that no other worker claims them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from afl.kernel.ids import random_id
from afl.models.conversation import CORRECTIONS, ROUNDS
from afl.models.messages import MAX_TOKENS
from afl.models.model import Model, OnText
from afl.models.opening import AnyModel, as_model
from afl.models.schema import PythonTool
from afl.models.settings import ModelSettings
from afl.models.usage import PRICES, Prices
from afl.runtime.entities import RunnerState, TaskState, params_of
from afl.runtime.errors import WorkflowRuntimeError
from afl.runtime.evaluation.execution import ExecutionResult, ExecutionStatus
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import run_topic
from afl.runtime.persistence.usage import BudgetExceeded, check_limits
from afl.runtime.stores.usage_store import budget_store
from afl.runtime.task_handlers.handler import HandlerContext, Handlers, TaskHandler
from afl.runtime.task_handlers.model_handler import ModelHandler
from afl.runtime.task_handlers.tool_definition import ToolDefinition
from afl.runtime.task_handlers.tool_registry import ToolRegistry
from afl.runtime.types import WorkflowId
from afl.runtime.worker.claimer import seconds_until_due
from afl.runtime.worker.options import WorkerOptions
from afl.runtime.worker.polling import PollingWorker

__all__ = ["ClaudeAgentRunner", "NoHandlerError", "ToolDefinition", "ToolRegistry"]

DEFAULT_MODEL = "claude-sonnet-4-20250514"


_GOES_ON = (RunnerState.CREATED, RunnerState.RUNNING)


class NoHandlerError(
    WorkflowRuntimeError, builtins.RuntimeError, hint="Register a handler for the facet, or a default one."
):
    """Nothing here can do the work of a facet; the run waits for an agent that can."""


class ClaudeAgentRunner:
    """Runs workflows with functions and a model; synchronous, in one thread, without the task queue.

    `model` is the name of a model for `anthropic_client`, or any model, also by a name with its provider. `tools` are
    Python functions that the model may call. An answer that does not fit goes back up to `corrections` times, then the
    step fails.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        persistence: PersistenceAPI,
        *,
        anthropic_client: Any = None,
        model: AnyModel = DEFAULT_MODEL,
        system_prompt: str | None = None,
        tool_registry: ToolRegistry | None = None,
        max_dispatches: int = 100,
        tools: Sequence[Callable[..., Any] | PythonTool] = (),
        max_tokens: int = MAX_TOKENS,
        corrections: int = CORRECTIONS,
        rounds: int = ROUNDS,
        prices: Prices = PRICES,
        on_text: OnText | None = None,
        settings: ModelSettings | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._persistence = persistence
        self._task_list = f"claude-agent-runner:{random_id()}"
        self._max_dispatches = max_dispatches
        chosen = _model(model, anthropic_client)
        self._handlers = _AgentHandlers(
            tool_registry if tool_registry is not None else ToolRegistry(),
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
                settings=settings,
            ),
        )
        options = WorkerOptions(task_list=self._task_list)
        self._worker = PollingWorker(evaluator, self._handlers, options)

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
        if budgets is not None:  # in time: no handler is called before the run waits for one
            budgets.set_budget(result.workflow_id, usd=budget_usd, tokens=budget_tokens)
        return self._drive(result, task_description or "")

    def resume(self, workflow_id: WorkflowId, *, task_description: str | None = None) -> ExecutionResult:
        """Go on with a run that paused, also one that a process left behind which died."""
        self._persistence.unpause_run(workflow_id)
        return self._drive(self._evaluator.resume(workflow_id), task_description or "")

    def _drive(self, result: ExecutionResult, task: str) -> ExecutionResult:
        self._handlers.begin(task)
        left = self._max_dispatches
        while result.status == ExecutionStatus.PAUSED and left > 0:
            run = self._persistence.get_run(result.workflow_id)
            if run is None or run.state == RunnerState.PAUSED:
                break
            done = self._worker.poll_once(1, run) or self._poll_children(result.workflow_id)
            if not done and not self._wait_for_retry(result.workflow_id):
                self._require_handlers(result.workflow_id)
                break
            left -= done
            result = self._evaluator.resume(result.workflow_id)
        if result.status == ExecutionStatus.PAUSED:
            result.error = self._handlers.budget_exceeded
        return result

    def _poll_children(self, workflow_id: WorkflowId) -> int:
        """Go on with a child run, at any depth, until one task of it is done or it ended; 0 if none can go on."""
        above = [workflow_id] if self._evaluator.programs.of_run(workflow_id).may_start_runs else []
        for parent in above:  # which grows: the children of a child that just began are found after it
            for child in self._persistence.get_children(parent, states=_GOES_ON):
                result = self._evaluator.resume(WorkflowId(child.workflow_id))
                if result.status != ExecutionStatus.PAUSED or self._worker.poll_once(1, child):
                    return 1
                above.append(result.workflow_id)
        return 0

    def _wait_for_retry(self, workflow_id: WorkflowId) -> bool:
        """Wait until a delayed task of the run may be claimed; False if there is none."""
        with self._persistence.subscribe([run_topic(workflow_id)]) as subscription:
            delay = seconds_until_due(self._persistence, self._handlers, workflow_id)
            if delay is not None:
                subscription.wait(delay)
        return delay is not None

    def _require_handlers(self, workflow_id: WorkflowId) -> None:
        """NoHandlerError for a task of the run that nobody can do but a handler that is not registered here."""
        for task in self._persistence.get_tasks_by_workflow(workflow_id):
            if task.state == TaskState.PENDING and not task.via and not self._handlers.serves(task.name):
                raise NoHandlerError(
                    f"No handler registered for event facet '{task.name}' and no anthropic_client to ask; "
                    "register a function or give a client"
                )


class _AgentHandlers(Handlers):
    """The functions of a registry, and the model for the facets that have none."""

    def __init__(self, registry: ToolRegistry, model: ModelHandler | None) -> None:
        super().__init__()
        self._registry = registry
        self._model = model
        self._task = ""
        self.budget_exceeded: BudgetExceeded | None = None

    def begin(self, task: str) -> None:
        """Work for a run begins; `task` is what all of it is for."""
        self._task, self.budget_exceeded = task, None

    @property
    def any_event(self) -> bool:  # type: ignore[override]
        """Whether it serves whatever facet there is."""
        return self._model is not None or self._registry.has_default

    @property
    def names(self) -> list[str]:
        """The names to claim by."""
        return self._registry.names

    def find(self, facet: str) -> TaskHandler | None:
        """The handler of a facet; None without a function and a model."""
        known = self._model is not None or self._registry.has_handler(facet)
        return _AgentHandler(facet, self) if known else None

    def handle(self, facet: str, params: dict[str, Any], context: HandlerContext) -> dict[str, Any] | None:
        """The result of a facet, by its function, else by the model."""
        if self._registry.has_handler(facet) or self._model is None:
            return self._registry.handle(facet, params)
        try:
            return self._model.handle(params, context, task=self._task)
        except BudgetExceeded as reached:
            self.budget_exceeded = reached
            raise


class _AgentHandler:
    def __init__(self, facet: str, handlers: _AgentHandlers) -> None:
        self.facet = facet
        self._handlers = handlers

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        return self._handlers.handle(self.facet, params_of(payload), context)


def _model(model: AnyModel, client: Any) -> Model | None:
    if not isinstance(model, str) or ":" in model:
        return as_model(model)
    if client is None:
        return None
    from afl.models.anthropic_client import AnthropicClientModel  # noqa: PLC0415  needs an extra

    return AnthropicClientModel(model, client)
