"""The evaluator: runs workflows to a fixed point, pauses them for outside work, and goes on when it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from afl.kernel import crashpoint
from afl.kernel.bounds import check_name, check_tags
from afl.kernel.clock import wall_ms
from afl.kernel.errors import CorruptRow, HeldError, InputError, StateError
from afl.kernel.ids import sortable_id
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.changers import get_state_changer
from afl.runtime.evaluation.child_runs import settle_child_runs
from afl.runtime.evaluation.context import ExecutionContext
from afl.runtime.evaluation.execution import ExecutionResult, ExecutionStatus, result_of
from afl.runtime.evaluation.outcome import completed, failed
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluation.reopening import retry_run
from afl.runtime.evaluation.session import Session
from afl.runtime.evaluation.signals import receive_signals
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.program import Program
from afl.runtime.states import STEP_TRANSITIONS, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import StepId, WorkflowId

__all__ = [
    "Evaluator",
    "ExecutionContext",
    "ExecutionResult",
    "ExecutionStatus",
    "get_state_changer",
]


_BEFORE_TRANSMIT = frozenset(list(STEP_TRANSITIONS)[: list(STEP_TRANSITIONS).index(StepState.EVENT_TRANSMIT)])


class ResultBatch(Protocol):
    """Results that are stored together; it knows which task each report is about."""

    def report(self, value: Any = None, *, failure: str | None = None) -> None:
        """The work of the task is done, with this value, or failed."""

    def store(self) -> None:
        """Store what was reported."""


class Evaluator:
    """Evaluates runs in a store. Shared freely: all state of an execution is made for that execution."""

    def __init__(
        self,
        persistence: PersistenceAPI,
        telemetry: Telemetry | None = None,
        max_iterations: int | None = None,
        *,
        pace: Pace | None = None,
    ) -> None:
        self.persistence = persistence
        self.telemetry = telemetry if telemetry is not None else Telemetry(enabled=False)
        self.max_iterations = max_iterations
        self.programs = ProgramCache(persistence)
        self.pace = pace or Pace()
        self._local = threading.local()  # the batch of each thread

    # -- running ----------------------------------------------------------------------------------------------

    def execute(
        self,
        workflow_ast: dict[str, Any],
        inputs: dict[str, Any] | None = None,
        program_ast: dict[str, Any] | None = None,
        runner_id: str = "",
        *,
        task_list: str = "default",
    ) -> ExecutionResult:
        """Start a run and evaluate it until it ends or waits. Never raises: an error is a result."""
        run_id = WorkflowId(sortable_id())
        try:
            program = self.programs.of(workflow_ast, program_ast)
            session = self.begin(
                program, inputs, runner_id=runner_id, task_list=task_list, workflow_id=run_id
            )
            result = self._finish(session)
            if session.has_received:
                before, result = result, self.resume(run_id)
                result.iterations += before.iterations
            return result
        except Exception as error:
            return self._broken(run_id, error)

    def begin(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        runner_id: str = "",
        task_list: str = "default",
        flow_id: str = "",
        workflow_id: WorkflowId | None = None,
        name: str = "",
        tags: Mapping[str, str] | None = None,
        serves: Callable[[TaskDefinition], bool] | None = None,
    ) -> Session:
        """A session on a new run; nothing is stored before its first commit. InputError if an input does not fit."""
        run = self.new_run(
            program,
            inputs,
            runner_id=runner_id,
            task_list=task_list,
            flow_id=flow_id,
            workflow_id=workflow_id,
            name=name,
            tags=tags,
        )
        self.programs.store(program)
        run.state, run.owner, run.epoch = RunnerState.RUNNING, self.persistence.owner_id, 1
        self.telemetry.log_workflow_start(run.workflow_id, run.workflow_name)
        return Session(
            self.persistence,
            program,
            run,
            self.telemetry,
            new=True,
            pace=self.pace,
            serves=serves,
            store_program=self.programs.store,
        )

    def new_run(
        self,
        program: Program,
        inputs: Mapping[str, Any] | None = None,
        *,
        runner_id: str = "",
        task_list: str = "default",
        flow_id: str = "",
        workflow_id: WorkflowId | None = None,
        name: str = "",
        tags: Mapping[str, str] | None = None,
    ) -> RunDefinition:
        """A run that has not begun; nothing is stored. InputError if an input, the name or a tag does not fit."""
        return RunDefinition(
            workflow_id=workflow_id or sortable_id(),
            workflow_name=program.workflow.name,
            program_hash=program.hash,
            state=RunnerState.CREATED,
            runner_id=runner_id,
            flow_id=flow_id,
            task_list=check_name(task_list, "the task list"),
            inputs=check_inputs(program, inputs or {}),
            created=wall_ms(),
            name=check_name(name, "the run's name") if name else "",
            tags=check_tags(tags or {}),
        )

    def submit(self, program: Program, inputs: Mapping[str, Any] | None = None, **options: Any) -> WorkflowId:
        """Store a run for any runner to begin, and return its id. The options are those of `new_run`.

        Submitting an id again changes nothing: the run that is there counts.
        """
        run = self.new_run(program, inputs, **options)
        self.programs.store(program)
        self.persistence.insert_run(run)
        return WorkflowId(run.workflow_id)

    def resume(
        self,
        workflow_id_val: WorkflowId,
        workflow_ast: dict[str, Any] | None = None,
        program_ast: dict[str, Any] | None = None,
        inputs: dict[str, Any] | None = None,
        runner_id: str = "",
    ) -> ExecutionResult:
        """Go on with a run. The program stored with it counts; inputs were fixed when it started. Never raises."""
        try:
            if workflow_ast is not None:
                self.programs.remember(workflow_id_val, workflow_ast)
            return self._resume(workflow_id_val)
        except HeldError as error:
            return ExecutionResult(True, workflow_id_val, status=ExecutionStatus.PAUSED, held_by=str(error))
        except Exception as error:
            return self._broken(workflow_id_val, error)

    def _resume(self, workflow_id: WorkflowId) -> ExecutionResult:
        run, iterations = None, 0
        self._receive_signals(workflow_id)
        while (marks := self.persistence.get_marks(workflow_id)) or self._was_abandoned(workflow_id, run):
            session = self.take(workflow_id)
            if session is None:
                run = None
                break
            session.consume(marks)
            result = self._finish(session)
            iterations += result.iterations
            run = session.run
            if session.timed_out or run.is_over:
                return self.result(run, iterations, timed_out=session.timed_out)
        return self.result(run or self._get_run(workflow_id), max(iterations, 1))

    def _receive_signals(self, workflow_id: WorkflowId) -> None:
        """Signals that whoever had the run last did not give to its tasks any more."""
        with suppress(CorruptRow):  # found again, and told, when the run is taken
            receive_signals(self.persistence, self.programs.of_run(workflow_id), workflow_id)

    def _was_abandoned(self, workflow_id: WorkflowId, ours: RunDefinition | None) -> bool:
        """Whether a run we have not just had in hand was left between two fixed points."""
        if ours is not None:
            return False
        run = self._get_run(workflow_id)
        return not (run.is_over or run.settled)

    def _get_run(self, workflow_id: WorkflowId) -> RunDefinition:
        run = self.persistence.get_run(workflow_id)
        if run is None:
            raise InputError(f"there is no run {workflow_id} in this store")
        return run

    def take(
        self,
        workflow_id: WorkflowId,
        serves: Callable[[TaskDefinition], bool] | None = None,
    ) -> Session | None:
        """A session on a stored run; None if it is over or paused, HeldError if somebody else has it."""
        run = self.persistence.take_run(workflow_id, lease_ms=self.persistence.run_lease_ms)
        crashpoint.reach("take.after")
        if run is None:
            raise InputError(f"there is no run {workflow_id} in this store")
        if run.is_over or run.state == RunnerState.PAUSED:
            return None
        if run.state == RunnerState.CREATED:  # submitted, and not begun
            run.inputs = self._get_run(workflow_id).inputs
        return self.session(run, serves)

    def take_all(self, workflow_ids: list[WorkflowId]) -> list[RunDefinition]:
        """Those of the runs that nobody has and that are not over or paused, taken in one round trip."""
        if not workflow_ids:
            return []
        with claiming():
            taken = self.persistence.take_runs(workflow_ids, lease_ms=self.persistence.run_lease_ms)
        crashpoint.reach("take.after")
        return taken

    def session(self, run: RunDefinition, serves: Callable[[TaskDefinition], bool] | None) -> Session:
        """A session on a run that was taken. CorruptRow if it, or its program, cannot be read."""
        if run.unreadable:
            raise CorruptRow(run.unreadable)
        program = self.programs.load(run.program_hash)
        self.telemetry.log_workflow_start(run.workflow_id, run.workflow_name)
        return Session(
            self.persistence,
            program,
            run,
            self.telemetry,
            pace=self.pace,
            serves=serves,
            store_program=self.programs.store,
        )

    def _finish(self, session: Session) -> ExecutionResult:
        session.advance(self.max_iterations)
        session.close()
        session.receive_signals()
        self.settle_child_runs([session])
        run = session.run
        if run.state == RunnerState.COMPLETED:
            self.telemetry.log_workflow_complete(run.workflow_id, run.outputs)
        elif run.error is not None:
            self.telemetry.log_workflow_error(run.workflow_id, StepFailure.from_dict(run.error))
        return self.result(run, session.iterations, timed_out=session.timed_out)

    def settle_child_runs(self, stored: Iterable[Session]) -> None:
        """After a commit: where a run ended, tell its parent, and cancel the children that end with it."""
        for session in stored:
            if session.run.is_over and (session.run.parent_step or session.context.program.may_start_runs):
                settle_child_runs(self.persistence, self.programs)
                return

    def result(self, run: RunDefinition, iterations: int, *, timed_out: bool = False) -> ExecutionResult:
        """The result that a run's record amounts to."""
        return result_of(self.persistence, run, iterations, timed_out=timed_out)

    def _broken(self, workflow_id: WorkflowId, error: Exception) -> ExecutionResult:
        self.telemetry.log_workflow_error(workflow_id, error)
        return ExecutionResult(False, workflow_id, error=error, status=ExecutionStatus.ERROR)

    # -- outside work -----------------------------------------------------------------------------------------

    def continue_step(
        self, step_id: StepId, result: dict[str, Any] | None = None, *, task: TaskDefinition | None = None
    ) -> bool:
        """The work of a step at EventTransmit is done: merge its result into the step's returns.

        The step's task and event close in the same transaction. A result that does not fit the facet's return clause
        fails the step. False, and nothing changes, for a step that has gone on already, or when `task` is a claim
        that is no longer held. Without `task` this is an operator's act and needs no claim.
        """
        batch = self._batch
        if batch is not None:
            batch.report(result)
            return True
        step = self._step_at_transmit(step_id)
        if step is None:
            return False
        claim = task if task is not None else self._unclaimed(step_id)
        outcome = completed(self.programs.of_run(step.workflow_id), step, claim, result)
        return self._finish_work(outcome)

    def fail_step(self, step_id: StepId, error_message: str, *, task: TaskDefinition | None = None) -> bool:
        """The work of a step at EventTransmit failed: the step ends in Error, unless the workflow catches it."""
        batch = self._batch
        if batch is not None:
            batch.report(failure=error_message)
            return True
        step = self._step_at_transmit(step_id)
        if step is None:
            return False
        claim = task if task is not None else self._unclaimed(step_id)
        return self._finish_work(failed(step, claim, error_message))

    def _finish_work(self, outcome: Outcome) -> bool:
        crashpoint.reach("finish.before")
        done = self.persistence.finish([outcome])[0]
        crashpoint.reach("finish.after")
        if done and outcome.task is not None:
            tracing.task_ended(outcome.task, (outcome.task.error or {}).get("message"))
        return done

    @contextmanager
    def batch(self, results: ResultBatch) -> Iterator[None]:
        """Within it `continue_step` and `fail_step`, called by this thread, only report; its end stores all of it."""
        self._local.batch = results
        try:
            yield
        finally:
            self._local.batch = None
        results.store()

    @property
    def _batch(self) -> ResultBatch | None:
        return getattr(self._local, "batch", None)

    def retry(self, workflow_id: WorkflowId, step_id: StepId | None = None) -> int:
        """Let what failed in a run that is over be tried again: all of it, or what failed in one step.

        How many steps are tried again. The run goes on as soon as somebody evaluates it.
        """
        return retry_run(self.persistence, self._get_run(workflow_id), step_id)

    def _step_at_transmit(self, step_id: StepId) -> StepDefinition | None:
        step = self.persistence.get_step(step_id)
        if step is None:
            raise InputError(f"Step {step_id} not found")
        if step.state == StepState.EVENT_TRANSMIT:
            return step
        if step.state in _BEFORE_TRANSMIT or self.persistence.get_task_by_step(step_id) is None:
            raise StateError(f"Step {step_id} is at {step.state}, expected {StepState.EVENT_TRANSMIT}")
        return None

    def _unclaimed(self, step_id: StepId) -> TaskDefinition | None:
        task = self.persistence.get_task_by_step(step_id)
        if task is not None:
            task.owner = ""
        return task
