"""A session: one evaluator's hold on one run. It evaluates to a fixed point and commits on the way.

A commit is due when somebody outside could see the difference (a task was created, the run pauses or ends), or when
enough steps or time have gathered; it always ends at an iteration boundary. What is lost with an uncommitted
iteration is pure computation, which the next holder repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from afl.kernel import collector, crashpoint, telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.errors import PayloadError
from afl.runtime import recovery, tracing
from afl.runtime.changers import get_state_changer
from afl.runtime.changes import EventDefinition, IterationChanges, Outcome
from afl.runtime.context import ExecutionContext
from afl.runtime.ending import end_failed, end_if_over
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.flight import Flight, Ground
from afl.runtime.in_hand import claiming
from afl.runtime.outcome import completed
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import ObjectType, StepId, WorkflowId


@dataclass(frozen=True, slots=True)
class Pace:
    """When to commit and how much to keep in memory.

    A foreach has its window's steps half done at the end of an iteration: they are written twice if a commit falls
    there, so commits are to be larger than windows.
    """

    commit_steps: int = 4096
    commit_seconds: float = 0.100
    foreach_window: int = 256
    cached_steps: int = 50_000
    launch_tasks: int = 16  # so many answers take the store a while


class Session:
    """Evaluates one run while it is held. After `close` (or FencedError) it must not be used."""

    def __init__(
        self,
        persistence: PersistenceAPI,
        program: Program,
        run: RunDefinition,
        telemetry: Telemetry,
        *,
        new: bool = False,
        pace: Pace | None = None,
        serves: Callable[[TaskDefinition], bool] | None = None,
    ) -> None:
        self.run = run
        self.iterations = 0
        self._earlier = run.iterations
        self.observe: Callable[[list[StepDefinition]], None] | None = None
        self.timed_out = False
        self._pace = pace or Pace()
        self._store = persistence
        self._ground = Ground(persistence)
        self._persistence = self._ground.api
        self._unsettled = not new and not run.settled
        self._last_commit = time.monotonic()
        self.context = ExecutionContext(
            persistence=self._persistence,
            telemetry=telemetry,
            changes=IterationChanges(run=run, new_run=new),
            workflow_id=WorkflowId(run.workflow_id),
            runner_id=run.runner_id,
            program=program,
            run=run,
            serves=serves,
            foreach_window=self._pace.foreach_window,
        )
        if new:
            self._create_root()

    def _create_root(self) -> None:
        root = self.context.create_step(
            StepId(self.run.workflow_id), ObjectType.WORKFLOW, facet_name=self.run.workflow_name
        )
        for name, value in self.run.inputs.items():
            root.set_attribute(name, value)

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
        with collector.paused(), tracing.evaluating(self.run):
            while max_iterations is None or self.iterations < max_iterations:
                self.iterations += 1
                changed = self._iterate()
                if not self.context.agenda:
                    if not changed:
                        return
                elif self._commit_due():  # with nothing on the agenda the caller's commit follows at once
                    self.commit(settled=False)
                    collector.sweep_young()
        self.timed_out = True

    def _recover(self) -> None:
        if self.run.state == RunnerState.CREATED:
            self.run.state, self._unsettled = RunnerState.RUNNING, False
            self._create_root()
        if self._unsettled:
            marks = self._persistence.get_marks(self.context.workflow_id, limit=1_000_000)
            recovery.rescan(self.context, {mark.step_id for mark in marks if mark.payload.get("failed")})
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

    # -- storing ----------------------------------------------------------------------------------------------

    def _commit_due(self) -> bool:
        changes = self.context.changes
        return (
            bool(changes.created_tasks)
            or changes.step_count >= self._pace.commit_steps
            or time.monotonic() - self._last_commit >= self._pace.commit_seconds
        )

    def commit(self, *, settled: bool) -> None:
        """Store everything gathered so far; FencedError if the run is no longer ours."""
        self.run.settled, self.run.updated = settled, wall_ms()
        self.run.iterations = self._earlier + self.iterations
        crashpoint.reach("commit.before")
        begun = time.monotonic()
        with claiming():
            self._persistence.commit(self.context.changes)
        telemetry.record("afl.commit.seconds", time.monotonic() - begun)
        crashpoint.reach("commit.after")
        self.stored()

    def stored(self) -> None:
        """What was gathered is stored: begin to gather anew."""
        changes, context = self.context.changes, self.context
        written = [*changes.created_steps, *changes.updated_steps]
        tasks = len(changes.created_tasks)
        changes.clear()
        self._last_commit = time.monotonic()
        self._take_note(written, tasks)
        if context.cached_steps > self._pace.cached_steps or not self.run.owner:
            context.forget_all()  # of a run that is let go, too: its steps and frames know each other, and would stay
        if self.run.is_over:
            tracing.run_ended(self.run)

    def _take_note(self, written: list[StepDefinition], tasks: int) -> None:
        self.context.telemetry.log_commit(self.run.workflow_id, len(written), tasks)
        if self.observe is not None:
            self.observe(written)
        self.context.forget_closed(written)

    @property
    def may_fly(self) -> bool:
        """Whether the next commit is a large one of a run that goes on, and nothing begins or ends with it."""
        changes = self.context.changes
        outward = changes.created_tasks or changes.consumed_events or changes.logs or changes.new_run
        return (
            not (outward or self.run.is_over)
            and len(changes.updated_tasks) >= self._pace.launch_tasks
            and self.context.cached_steps <= self._pace.cached_steps
        )

    def launch(self) -> None:
        """Have what was gathered stored, without waiting for it. What was launched before must have landed."""
        changes = self.context.changes
        crashpoint.reach("commit.before")
        land = self._store.launch(changes)
        self._ground.flight = Flight(land, [*changes.created_steps, *changes.updated_steps])
        self.context.changes = IterationChanges(run=self.run)
        self._last_commit = time.monotonic()

    def land(self) -> None:
        """Wait for what was launched. Until then its steps must stay in memory: the store does not have them yet.

        Those that have changed since must stay until that is stored, too.
        """
        flight = self._ground.flight
        if flight is not None:
            flight.land()
            crashpoint.reach("commit.after")
            self._ground.flight = None
            telemetry.record("afl.commit.seconds", time.monotonic() - flight.begun)
            changes = self.context.changes
            self._take_note([step for step in flight.steps if not changes.writes(step.id)], 0)

    def conclude(self, *, keep: bool) -> IterationChanges:
        """At a fixed point: record where the run stands, and whether it is kept. What is to be stored now."""
        if not self.timed_out:
            self.run.iterations = self._earlier + self.iterations
            end_if_over(self.run, self.context)
        if not keep or self.run.is_over:
            self.run.owner = ""
        self.run.settled, self.run.updated = not self.timed_out, wall_ms()
        return self.context.changes

    def settle(self) -> None:
        """At a fixed point: record where the run stands, and keep it while it is not over."""
        self.conclude(keep=True)
        self._store_or_fail()

    def close(self) -> None:
        """At a fixed point: record where the run stands, and let it go."""
        self.conclude(keep=False)
        self._store_or_fail()

    def _store_or_fail(self) -> None:
        try:
            self.commit(settled=not self.timed_out)
        except PayloadError as error:
            self.fail_unstorable(error)

    def fail_unstorable(self, error: PayloadError) -> None:
        """A value grew too large to store: nothing of it was, so the run ends where it last stood."""
        new = self.context.changes.new_run
        self.context.changes = IterationChanges(run=self.run, new_run=new)
        self.run.outputs, self.run.owner, self.context.claimed = {}, "", []
        end_failed(self.run, StepFailure(str(error), type(error).__name__, step=self.run.workflow_name))
        self._persistence.commit(self.context.changes)
        tracing.run_ended(self.run)

    @property
    def tasks(self) -> list[TaskDefinition]:
        """Tasks this session claimed at their birth and that nobody has taken from it yet; empties the list."""
        claimed, self.context.claimed = self.context.claimed, []
        return claimed
