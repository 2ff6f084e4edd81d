"""The runs that a worker evaluates: it takes them, brings them what handlers answered, and lets them go.

A run is kept from one answer to the next while tasks of it are in hand here: then an answer and all that follows from
it are one commit. A run that somebody else holds gets its answers as StepContinue marks, for its holder to consume.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from copy import copy

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.errors import FencedError, HeldError, InputError, StoreError
from afl.runtime.changes import Outcome
from afl.runtime.entities import RunDefinition, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.outcome import completed, failed
from afl.runtime.policies import retry_delay
from afl.runtime.program import Program
from afl.runtime.session import Session
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.usage import BudgetExceeded
from afl.runtime.workbench import Done

_log = logging.getLogger(__name__)

_KEPT_RUNS = 64
_KEPT_SECONDS = 1.0
_IDLE_SECONDS = 0.05
_TROUBLE_SECONDS = 10.0


class Evaluations:
    """`serves` says which new tasks stay here, `expects` whether tasks of a run are at work here, or soon will be."""

    def __init__(
        self,
        evaluator: Evaluator,
        serves: Callable[[TaskDefinition], bool] | None,
        expects: Callable[[str], bool],
        observe: Callable[[Done, str | None], None] | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._serves = serves
        self._expects = expects
        self._observe = observe
        self._kept: dict[str, tuple[Session, float]] = {}
        self._troubled: dict[str, float] = {}
        self._born: list[TaskDefinition] = []
        self._undelivered: dict[str, list[Done]] = {}
        self._orphans: list[RunDefinition] = []

    @property
    def busy(self) -> bool:
        """Whether anything is held: runs, or answers that are not stored yet."""
        return bool(self._kept or self._undelivered)

    @property
    def undelivered(self) -> bool:
        """Whether there are answers that could not be stored; `deliver` tries again."""
        return bool(self._undelivered)

    def born(self) -> list[TaskDefinition]:
        """Tasks that were created here, claimed at their birth; to be worked on now."""
        tasks, self._born = self._born, []
        return tasks

    # -- what handlers answered -------------------------------------------------------------------------------

    def deliver(self, done: Sequence[Done]) -> None:
        """Store what handlers answered, and go on with their runs.

        An answer is kept until it is stored. When the store fails on the way, nobody knows whether it was: storing it
        again does no harm, since it is fenced.
        """
        for each in done:
            self._undelivered.setdefault(each.task.workflow_id, []).append(each)
        self._release_orphans()
        for workflow_id, group in list(self._undelivered.items()):
            rest = self._without_retries(group)
            if rest and not self._deliver_to_session(workflow_id, rest):
                self._deliver_by_marks(workflow_id, rest)
            del self._undelivered[workflow_id]

    def _without_retries(self, group: list[Done]) -> list[Done]:
        """Put back what is to be tried again, or what the run has no budget for; the others are left."""
        rest = []
        for each in group:
            if isinstance(each.error, BudgetExceeded):
                self._store.return_tasks([each.task])
                self.let_go(each.task.workflow_id)
                self._store.pause_run(WorkflowId(each.task.workflow_id), str(each.error))
            elif not self._retried(each):
                rest.append(each)
        return rest

    def _retried(self, each: Done) -> bool:
        if each.error is None:
            return False
        delay = retry_delay(each.task, each.error_type)
        if delay is None:
            return False
        error = {"message": _text(each.error), "type": each.error_type}
        self._store.requeue(each.task, delay, error)
        self._tell(each, f"{_text(each.error)}; next attempt in {delay} ms")
        return True

    def _deliver_to_session(self, workflow_id: str, group: list[Done]) -> bool:
        session = self._take(workflow_id)
        if session is None:
            return False
        try:
            self._feed(session, group)
            self._advance(session)
        except FencedError:
            self._drop(session)
            return False
        except StoreError:
            self._orphan(session)
            raise
        except Exception:
            self._trouble(session)
            return False
        return True

    def _feed(self, session: Session, group: list[Done]) -> None:
        """Give a session the answers, and what others did for its run meanwhile."""
        context = session.context
        context.preload([StepId(each.task.step_id) for each in group])
        outcomes = []
        for each in group:
            step = context.step(StepId(each.task.step_id))
            if step is None or step.state != StepState.EVENT_TRANSMIT:
                self._ignore(each.task)
            else:
                outcomes.append(self._outcome(context.program, step, each))
        crashpoint.reach("deliver.before")
        session.deliver(outcomes)
        if session.run.waiting > 0:
            marks = self._store.get_marks(context.workflow_id)
            if marks:
                session.consume(marks)

    def _deliver_by_marks(self, workflow_id: str, group: list[Done]) -> None:
        """The run is somebody else's: leave the answers for its holder, and see whether it has let go meanwhile."""
        steps = {step.id: step for step in self._store.get_steps([StepId(d.task.step_id) for d in group])}
        known = [each for each in group if each.task.step_id in steps]
        for each in group:
            if each.task.step_id not in steps:
                self._ignore(each.task)
        if not known:
            return
        program = self._evaluator.programs.of_run(WorkflowId(workflow_id))
        outcomes = [self._outcome(program, steps[StepId(each.task.step_id)], each) for each in known]
        crashpoint.reach("finish.before")
        stored = self._store.finish(outcomes)
        crashpoint.reach("finish.after")
        for each, good in zip(known, stored, strict=True):
            if not good:
                self._ignore(each.task)
        self.evaluate(workflow_id)

    def _outcome(self, program: Program, step: StepDefinition, each: Done) -> Outcome:
        if each.error is not None:
            outcome = failed(step, each.task, _text(each.error), each.error_type)
        else:
            outcome = completed(program, step, each.task, {} if each.answer is None else each.answer)
        problem = outcome.task.error if outcome.task is not None else None
        self._tell(each, problem["message"] if problem else None)
        return outcome

    def _ignore(self, task: TaskDefinition) -> None:
        """Nobody waits for this one any more: its step moved on, or its run ended."""
        ignored = copy(task)
        ignored.state, ignored.updated = TaskState.IGNORED, wall_ms()
        self._store.close_tasks([ignored])

    def _tell(self, each: Done, problem: str | None) -> None:
        if self._observe is not None:
            self._observe(each, problem)

    # -- runs -------------------------------------------------------------------------------------------------

    def evaluate_due(self, limit: int = 100) -> int:
        """Go on with runs that need an evaluator and have none; how many."""
        self._release_orphans()
        due = [run for run in self._store.get_due_runs(limit) if not self._is_troubled(run)]
        return sum(self.evaluate(run) for run in due)

    def evaluate(self, workflow_id: str) -> bool:
        """Go on with one run; False if somebody else has it."""
        session = self._take(workflow_id)
        if session is None:
            return False
        try:
            session.consume(self._store.get_marks(WorkflowId(workflow_id)))
            self._advance(session)
        except FencedError:
            self._drop(session)
        except StoreError:
            self._orphan(session)
            raise
        except Exception:
            self._trouble(session)
        return True

    def _take(self, workflow_id: str) -> Session | None:
        kept = self._kept.get(workflow_id)
        if kept is not None:
            return kept[0]
        try:
            return self._evaluator.take(WorkflowId(workflow_id), self._serves)
        except (HeldError, InputError):  # somebody has it; or it is gone
            return None
        except StoreError:
            raise
        except Exception:
            self._put_off(workflow_id)
            return None

    def _advance(self, session: Session) -> None:
        """Evaluate, store, and keep the run only while there is work for it here."""
        workflow_id = session.run.workflow_id
        self._evaluator.telemetry.log_resume(workflow_id)
        session.advance()
        keep = bool(session.context.claimed) or (session.run.waiting > 0 and self._expects(workflow_id))
        if keep:
            session.settle()
        else:
            session.close()
        self._born += session.tasks
        if keep and not session.run.is_over:
            self._kept.pop(workflow_id, None)
            self._kept[workflow_id] = (session, time.monotonic())
        else:
            self._kept.pop(workflow_id, None)
            if session.run.waiting > 0 and self._store.get_marks(WorkflowId(workflow_id), limit=1):
                self.evaluate(workflow_id)  # somebody answered while we still had it

    def _drop(self, session: Session) -> None:
        """Something it wrote to was taken away: what it has in memory is of no use any more."""
        self._orphan(session)
        self._release_orphans()

    def _orphan(self, session: Session) -> None:
        """Forget a session, but not that its run is to be released."""
        self._kept.pop(session.run.workflow_id, None)
        held = copy(session.run)
        held.owner = self._store.owner_id
        self._orphans.append(held)

    def _release_orphans(self) -> None:
        while self._orphans:
            self._store.release_run(self._orphans[-1])
            self._orphans.pop()

    def _is_troubled(self, workflow_id: str) -> bool:
        until = self._troubled.get(workflow_id)
        return until is not None and time.monotonic() < until

    def _trouble(self, session: Session) -> None:
        self._drop(session)
        self._put_off(session.run.workflow_id)

    def _put_off(self, workflow_id: str) -> None:
        """A run that cannot be evaluated must not keep the others from it."""
        _log.exception("run %s cannot be evaluated; trying again later", workflow_id)
        self._troubled[workflow_id] = time.monotonic() + _TROUBLE_SECONDS

    # -- letting go -------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Let go of runs that nothing happened to for a while, and of the oldest if there are many."""
        now = time.monotonic()
        idle = [
            run
            for run, (_, last) in self._kept.items()
            if now - last > (_KEPT_SECONDS if self._expects(run) else _IDLE_SECONDS)
        ]
        surplus = list(self._kept)[: max(0, len(self._kept) - _KEPT_RUNS)]
        for workflow_id in dict.fromkeys([*idle, *surplus]):
            self.let_go(workflow_id)

    def let_go_all(self) -> None:
        """Let go of every run."""
        for workflow_id in list(self._kept):
            self.let_go(workflow_id)

    def let_go(self, workflow_id: str) -> None:
        """Let go of a run."""
        kept = self._kept.pop(workflow_id, None)
        if kept is not None:
            self._store.release_run(kept[0].run)
            if self._store.get_marks(WorkflowId(workflow_id), limit=1):
                self.evaluate(workflow_id)


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
