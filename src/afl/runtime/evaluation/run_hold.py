"""A hold on one run: what was gathered for it in memory, and how that is stored."""

from __future__ import annotations

import time
from collections.abc import Callable

from afl.kernel import crashpoint, telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.errors import PayloadError
from afl.runtime.entities import RunDefinition, TaskDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.child_runs import unwanted_tasks
from afl.runtime.evaluation.context import ExecutionContext
from afl.runtime.evaluation.ending import end_event, end_failed, end_if_over
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluation.signals import receive_signals
from afl.runtime.monitoring import tracing
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import ObjectType, StepId, WorkflowId


class RunHold:
    """One evaluator's. After `close` (or FencedError) it must not be used."""

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
        store_program: Callable[[Program], None] | None = None,
    ) -> None:
        self.run = run
        self.iterations = 0
        self._earlier = run.iterations
        self.observe: Callable[[list[StepDefinition]], None] | None = None
        self.timed_out = False
        self._children: list[WorkflowId] = []
        self.has_received = False  # signals, after the last commit
        self._pace = pace or Pace()
        self._persistence = persistence
        self._last_commit = time.monotonic()
        self.context = ExecutionContext(
            persistence=persistence,
            telemetry=telemetry,
            changes=IterationChanges(run=run, new_run=new),
            workflow_id=WorkflowId(run.workflow_id),
            runner_id=run.runner_id,
            program=program,
            run=run,
            serves=serves,
            store_program=store_program,
            foreach_window=self._pace.foreach_window,
        )
        self._unsettled = not new and not run.settled  # it may have been left in the middle of an evaluation
        if new:
            self._create_root()

    def _create_root(self) -> None:
        root = self.context.create_step(
            StepId(self.run.workflow_id), ObjectType.WORKFLOW, facet_name=self.run.workflow_name
        )
        for name, value in self.run.inputs.items():
            root.set_attribute(name, value)

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
        self._children += [WorkflowId(child.workflow_id) for child in changes.created_runs]
        changes.clear()
        self._last_commit = time.monotonic()
        context.telemetry.log_commit(self.run.workflow_id, len(written), tasks)
        if self.observe is not None:
            self.observe(written)
        context.forget_closed(written)
        context.forget_removed()
        if context.cached_steps > self._pace.cached_steps or not self.run.owner:
            context.forget_all()  # of a run that is let go, too: its steps and frames know each other, and would stay
        if self.run.is_over:
            tracing.run_ended(self.run)

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
        if self.context.program.may_start_runs and not new:
            self.context.changes.updated_tasks += unwanted_tasks(self._persistence, self.context.workflow_id)
        end_failed(self.run, StepFailure(str(error), type(error).__name__, step=self.run.workflow_name))
        self.context.changes.history.append(end_event(self.run))
        self._persistence.commit(self.context.changes)
        tracing.run_ended(self.run)

    def receive_signals(self) -> bool:
        """After a commit: give signals that came early to the tasks that wait for them now; whether there were any.

        Then the run has marks to be consumed. Whoever delivers a signal stores it first and looks for a task then, so
        one of both sees the other.
        """
        waits = self.run.waiting > 0 and not self.run.is_over
        program, run = self.context.program, self.context.workflow_id
        self.has_received = waits and receive_signals(self._persistence, program, run) > 0
        return self.has_received

    @property
    def children(self) -> list[WorkflowId]:
        """The child runs that were started since somebody asked; empties the list."""
        children, self._children = self._children, []
        return children

    @property
    def tasks(self) -> list[TaskDefinition]:
        """Tasks this session claimed at their birth and that nobody has taken from it yet; empties the list."""
        claimed, self.context.claimed = self.context.claimed, []
        return claimed
