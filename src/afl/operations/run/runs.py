"""Runs: start one, take one up again, find one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from afl.kernel.errors import AgentFlowError
from afl.kernel.ids import sortable_id
from afl.kernel.near_names import near_name
from afl.kernel.settings import Settings, load_settings
from afl.operations.run.attempts import AttemptView, failed_attempts, last_failure
from afl.operations.run.run_store import UnknownRun, find, opened
from afl.operations.run.run_summary import set_budget
from afl.runtime.entities import TaskDefinition, TaskState, child_of
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluation.run_observer import Observer
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

if TYPE_CHECKING:
    from afl.bridges.service import BridgeService

__all__ = [
    "DEFAULT_CONCURRENCY",
    "RunFailed",
    "RunPaused",
    "RunReport",
    "UnknownRun",
    "Waiting",
    "find",
    "opened",
    "resume",
    "start",
]

DEFAULT_CONCURRENCY = 8
_UNNAMED = "Error"  # the type of failures that have no other


@dataclass(frozen=True)
class Waiting:
    """Steps that wait for somebody. `near` is a handler of almost that name, if this process has one.

    `via` says who does their work where that is no handler (`human:finance`), `why` what keeps it from being begun.
    """

    facet: str
    steps: int
    near: str = ""
    via: str = ""
    why: str = ""


@dataclass(frozen=True)
class RunReport:
    """What a run came to. `status` is COMPLETED, PAUSED or ERROR; `reason` says who or what paused it.

    `attempts` are those of the step that failed it.
    """

    run: str
    workflow: str
    status: str
    outputs: dict[str, Any] = field(default_factory=dict)
    error: StepFailure | None = None
    waiting_for: list[Waiting] = field(default_factory=list)
    duration_ms: int = 0
    reason: str = ""
    attempts: list[AttemptView] = field(default_factory=list)

    @property
    def traceback(self) -> str:
        """The traceback of the attempt that failed the run; empty if it failed otherwise."""
        failed = last_failure(self.attempts)
        return failed.traceback if failed is not None else ""


class RunFailed(AgentFlowError, hint="Fix the cause, then `afl retry RUN`."):
    """A run ended in an error; `report` tells which step, where and why, `traceback` which line of its handler.

    `error_type` is the name of the exception, or of another cause, such as `Timeout`.
    """

    def __init__(self, report: RunReport) -> None:
        self.error_type = "" if report.error is None else report.error.error_type
        kind = "" if self.error_type in ("", _UNNAMED) else f"{self.error_type}: "
        super().__init__(f"run {report.run} of {report.workflow} failed: {kind}{report.error}")
        self.report = report
        self.traceback = report.traceback
        if self.traceback:
            self.add_note(f"\nIts handler raised:\n\n{self.traceback}")


class RunPaused(
    AgentFlowError, hint="Start an agent for the facets that are named, or `afl resume RUN --agent MODULE`."
):
    """A run waits for agents that this process does not have; `report` tells for which."""

    def __init__(self, report: RunReport) -> None:
        facets = ", ".join(each.facet for each in report.waiting_for) or "an operator"
        super().__init__(f"run {report.run} of {report.workflow} waits for {facets}")
        self.report = report


def start(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers,
    settings: Settings | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    observer: Observer | None = None,
    bridges: BridgeService | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
    name: str = "",
    tags: Mapping[str, str] | None = None,
) -> RunReport:
    """Run a workflow until it ends, or until only others can go on. InputError before anything is stored.

    What goes on elsewhere is waited for where this process hosts the bridge to it.
    """
    settings = settings or load_settings()
    run = WorkflowId(sortable_id())
    if budget_usd is not None or budget_tokens is not None:
        check_inputs(program, inputs or {})
        set_budget(store, run, usd=budget_usd, tokens=budget_tokens)
    with _runner(store, handlers, settings, concurrency, observer, bridges) as runner:
        result = runner.run(
            program, inputs, task_list=settings.task_list, workflow_id=run, name=name, tags=tags
        )
    return _report(store, result, handlers, bridges)


def resume(
    store: PersistenceAPI,
    run: str,
    *,
    handlers: Handlers,
    settings: Settings | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    observer: Observer | None = None,
    bridges: BridgeService | None = None,
) -> RunReport:
    """Go on with a run wherever it stopped. HeldError if a live process works on it."""
    found = find(store, run)
    with _runner(store, handlers, settings or load_settings(), concurrency, observer, bridges) as runner:
        result = runner.resume(WorkflowId(found.workflow_id))
    return _report(store, result, handlers, bridges)


def _runner(
    store: PersistenceAPI,
    handlers: Handlers,
    settings: Settings,
    concurrency: int,
    observer: Observer | None,
    bridges: BridgeService | None,
) -> LocalRunner:
    pace = Pace(settings.commit_steps, settings.commit_ms / 1000, settings.foreach_window)
    return LocalRunner(
        Evaluator(store, pace=pace),
        handlers,
        concurrency=concurrency,
        observer=observer,
        awaits=bridges.expects_result if bridges is not None else None,
    )


def _report(
    store: PersistenceAPI, result: ExecutionResult, handlers: Handlers, bridges: BridgeService | None
) -> RunReport:
    record = store.get_run(result.workflow_id)
    assert record is not None  # it was just committed
    error = result.error
    if error is not None and not isinstance(error, StepFailure):
        error = StepFailure(str(error), type(error).__name__)
    facets = Counter(event.event_type for event in result.pending_events)
    tasks = store.get_tasks_by_workflow(result.workflow_id) if facets else []
    if any(map(child_of, tasks)):
        tasks = _open_tasks(store, tasks)
        facets = Counter(task.name for task in tasks)
    elsewhere = {task.name: task for task in tasks if task.via and task.state == TaskState.PENDING}
    return RunReport(
        run=result.workflow_id,
        workflow=record.workflow_name,
        status=result.status,
        outputs=result.outputs,
        error=error,
        waiting_for=[_waiting(facet, steps, handlers, elsewhere, bridges) for facet, steps in facets.items()],
        reason=record.reason,
        attempts=failed_attempts(store, record),
        duration_ms=(record.ended or record.updated) - record.created,
    )


def _open_tasks(store: PersistenceAPI, tasks: Sequence[TaskDefinition]) -> list[TaskDefinition]:
    """The tasks that somebody has to do: in place of a child run, those of that run."""
    found: list[TaskDefinition] = []
    left = list(reversed(tasks))
    while left:
        task = left.pop()
        if task.state not in (TaskState.PENDING, TaskState.RUNNING):
            continue
        inside = store.get_tasks_by_workflow(WorkflowId(child_of(task))) if child_of(task) else []
        found += [] if inside else [task]
        left += reversed(inside)
    return found


def _waiting(
    facet: str,
    steps: int,
    handlers: Handlers,
    elsewhere: Mapping[str, TaskDefinition],
    bridges: BridgeService | None,
) -> Waiting:
    task = elsewhere.get(facet)
    if task is None:
        return Waiting(facet, steps, _near(facet, handlers))
    return Waiting(facet, steps, via=task.via, why=bridges.reason(task) if bridges is not None else "")


def _near(facet: str, handlers: Handlers) -> str:
    return near_name(facet, handlers.names)
