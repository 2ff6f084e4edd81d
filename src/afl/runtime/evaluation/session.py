"""A session: one evaluator's hold on one run. It evaluates to a fixed point and commits on the way.

A commit is due when somebody outside could see the difference (a task was created, the run pauses or ends), or when
enough steps or time have gathered; it always ends at an iteration boundary. What is lost with an uncommitted
iteration is pure computation, which the next holder repeats.
"""

from __future__ import annotations

import time

from afl.kernel.clock import wall_ms
from afl.kernel.errors import CorruptRow
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.changers import get_state_changer
from afl.runtime.evaluation.outcome import completed
from afl.runtime.evaluation.rescan import rescan
from afl.runtime.evaluation.run_hold import RunHold
from afl.runtime.monitoring import tracing
from afl.runtime.persistence.changes import EventDefinition, Outcome
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId


class Session(RunHold):
    """Evaluates one run while it is held."""

    # -- what arrives from outside ----------------------------------------------------------------------------

    def consume(self, marks: list[EventDefinition], *, fresh: bool = False) -> None:
        """Let the steps that StepContinue events name go on; one for a step that already did changes nothing.

        `fresh` says that these steps were read after the marks.
        """
        self._recover()
        if not fresh:
            self.context.forget_waiting([mark.step_id for mark in marks])
        self.context.preload([mark.step_id for mark in marks])
        seen: set[StepId] = set()
        for mark in marks:
            if mark.unreadable:
                raise CorruptRow(mark.unreadable)
            self.context.changes.consumed_events.append(mark.id)
            step = self.context.step(mark.step_id)
            if step is None or step.workflow_id != self.run.workflow_id or step.id in seen:
                continue
            seen.add(step.id)
            if mark.payload.get("failed"):
                self._take_failure(step)
            elif step.state == StepState.EVENT_TRANSMIT:
                if mark.payload.get("closed"):
                    self._go_on(step)
                else:
                    self._close_foreign(step)

    def deliver(self, outcomes: list[Outcome]) -> None:
        """Take outcomes of tasks this session claimed itself; they are stored with its next commit."""
        self._recover()
        for outcome in outcomes:
            self._apply(self.context.adopt(outcome.step), outcome)

    def _close_foreign(self, step: StepDefinition) -> None:
        """An agent wrote the returns itself and only says so: check them, and close its task and event."""
        task = self._persistence.get_task_by_step(step.id)
        if task is not None and task.state not in (TaskState.PENDING, TaskState.RUNNING):
            task = None  # the agent closed it itself
        self._apply(step, completed(self.context.program, step, task, {}))

    def _apply(self, step: StepDefinition, outcome: Outcome) -> None:
        self.context.changes.logs += outcome.logs
        if outcome.task is not None:
            self.context.changes.updated_tasks.append(outcome.task)
        if step.is_error:
            self._take_failure(step)
        else:
            self._go_on(step)

    def _go_on(self, step: StepDefinition) -> None:
        self.context.waiting_changed(-1)
        self.context.changes.touch(step)
        step.request_state_change(True)
        self.context.wake(step.id)

    def _take_failure(self, step: StepDefinition) -> None:
        if step.is_error:
            self.context.waiting_changed(-1)
            self.context.fail(step, step.transition.error or StepFailure("failed without a reason"))

    # -- evaluation -------------------------------------------------------------------------------------------

    def advance(self, max_iterations: int | None = None) -> None:
        """Evaluate to a fixed point: until nothing changes any more."""
        self._recover()
        self._last_commit = time.monotonic()  # it may have waited for its turn
        with tracing.evaluating(self.run):
            while max_iterations is None or self.iterations < max_iterations:
                self.iterations += 1
                changed = self._iterate()
                if not self.context.agenda:
                    if not changed:
                        return
                elif self._commit_due():  # with nothing on the agenda the caller's commit follows at once
                    self.commit(settled=False)
        self.timed_out = True

    def _recover(self) -> None:
        self.context.now = wall_ms()  # of what arrives
        if self.run.state == RunnerState.CREATED:
            self.run.state, self._unsettled = RunnerState.RUNNING, False
            self._create_root()
        if self._unsettled:
            marks = self._persistence.get_marks(self.context.workflow_id, limit=1_000_000)
            rescan(self.context, {mark.step_id for mark in marks if mark.payload.get("failed")})
            self._unsettled = False

    def _iterate(self) -> int:
        """Process what is on the agenda and all that comes of it; how many steps changed their state."""
        context, telemetry = self.context, self.context.telemetry
        if telemetry.enabled:
            telemetry.log_iteration_start(self.run.workflow_id, self.iterations)
        before = len(context.changes.created_steps)
        context.now = wall_ms()
        agenda, context.agenda = context.agenda, {}
        context.preload(list(agenda))
        changed = 0
        for step_id in agenda:
            step = context.require_step(step_id)
            if not step.is_terminal:
                changed += self._process(step)
        while context.arrivals:
            changed += self._process(context.arrivals.popleft())
        if telemetry.enabled:
            created = len(context.changes.created_steps) - before
            telemetry.log_iteration_end(self.run.workflow_id, self.iterations, created, changed)
        return changed

    def _process(self, step: StepDefinition) -> bool:
        before = step.state
        get_state_changer(step, self.context).process()
        if step.state == before:
            return False
        self.context.changes.touch(step)
        return True

    def _commit_due(self) -> bool:
        changes = self.context.changes
        return (
            bool(changes.created_tasks or changes.created_runs)
            or changes.step_count >= self._pace.commit_steps
            or time.monotonic() - self._last_commit >= self._pace.commit_seconds
        )
