"""The runs that a worker evaluates: it takes them, brings them what handlers answered, and lets them go.

All runs that have something to do are evaluated together: one round trip takes them, one reads what they need, one
stores what came of it. A run is kept from one answer to the next while tasks of it are in hand here. A run that
somebody else holds gets its answers as StepContinue marks, for its holder to consume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from afl.kernel import crashpoint
from afl.kernel.errors import (
    FencedError,
    PayloadError,
    StoreError,
    StoreUnavailable,
)
from afl.runtime.changes import EventDefinition
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.session import Session
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.answers import Answers, Observe
from afl.runtime.worker.commits import Commits
from afl.runtime.worker.kept_runs import KeptRuns
from afl.runtime.worker.read_ahead import marks_for, read_ahead
from afl.runtime.worker.task_in_hand import Done

_TOGETHER = 100


class Evaluations:
    """`serves` says which new tasks stay here, `expects` whether tasks of a run are at work here, or soon will be."""

    def __init__(
        self,
        evaluator: Evaluator,
        serves: Callable[[TaskDefinition], bool] | None,
        expects: Callable[[str], bool],
        observe: Observe | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._answers = Answers(self._store, observe)
        self._serves = serves
        self._expects = expects
        self._kept = KeptRuns(self._store)
        self._commits = Commits(self._store, self._answers, self._kept, expects)
        self._held: frozenset[str] = frozenset()
        self._asked: list[WorkflowId] = []

    @property
    def busy(self) -> bool:
        """Whether anything is held: runs, or answers that are not stored yet."""
        return bool(self._kept.busy or self.undelivered)

    @property
    def held_runs(self) -> frozenset[str]:
        """The runs that are held: kept ones, and those being evaluated now."""
        return self._held | frozenset(self._kept.ids)

    def unheard(self) -> list[WorkflowId]:
        """The runs that the store was asked for and did not answer about: they may be ours, and not in our hands."""
        asked, self._asked = self._asked, []
        return asked

    def pending_claims(self) -> list[TaskDefinition]:
        """Tasks in hand that are not on the bench: born, or answered and not stored."""
        return self._commits.claims()

    @property
    def undelivered(self) -> bool:
        """Whether there are answers that are not stored yet, or could not be; `deliver` sees to it."""
        return bool(self._commits.undelivered)

    def born(self) -> list[TaskDefinition]:
        """Tasks that were created here, claimed at their birth; to be worked on now."""
        tasks, self._commits.born = self._commits.born, []
        return tasks

    # -- what there is to do ----------------------------------------------------------------------------------

    def deliver(self, done: Sequence[Done]) -> None:
        """Store what handlers answered, and go on with their runs."""
        undelivered = self._commits.undelivered
        undelivered.add(done)
        while undelivered:
            batch = undelivered.batch(_TOGETHER)
            judged = {run: self._answers.without_retries(group) for run, group in batch.items()}
            judged = {run: group for run, group in judged.items() if group}
            delivered = self._go_on(judged)
            left: dict[str, list[Done]] = {run: [] for run in judged if run not in delivered}
            undelivered.stored({run: group for run, group in batch.items() if run not in left})
            for run in left:
                self._answers.leave(self._evaluator.programs, run, judged[run])
                undelivered.stored({run: batch[run]})
            self._go_on(left)  # if its holder has let go meanwhile

    def evaluate_due(self) -> int:
        """Go on with runs that need an evaluator and have none; how many were found."""
        due = self._store.get_due_runs(_TOGETHER)
        self._go_on({run: [] for run in due})
        return len(due)

    def heed_marks(self) -> None:
        """Go on with runs we hold that others answered for."""
        kept = self._kept.ids
        if kept:
            marks = self._store.get_marks_of([WorkflowId(run) for run in kept])
            self._go_on({mark.workflow_id: [] for mark in marks})

    def evaluate(self, workflow_id: str) -> bool:
        """Go on with one run; False if somebody else has it."""
        return workflow_id in self._go_on({workflow_id: []})

    # -- runs together ----------------------------------------------------------------------------------------

    def _go_on(self, work: dict[str, list[Done]]) -> set[str]:
        """Evaluate runs, each with the answers for it; which of them could be had and stored."""
        if not work:
            return set()
        self._kept.release_orphans()
        kept = self._kept.among(list(work))
        sessions = self._take(list(work), kept)
        self._held = frozenset(sessions)
        try:
            asked = {run: sessions[run] for run in sessions if run not in kept or not work[run]}
            marks = marks_for(self._store, asked)  # whoever leaves a mark for a kept run rings
            read_ahead(self._store, sessions, work, marks)
            advanced = [
                session
                for run, session in sessions.items()
                if self._advance(session, work[run], marks.get(run, []))
            ]
            stored, good = self._commits.store(advanced)
        except StoreError:
            for session in sessions.values():
                self._commits.orphan(session)
            raise
        finally:
            self._held = frozenset()
        for session in good:
            self._look_again(session)
        return stored

    def _take(self, runs: list[str], kept: dict[str, Session]) -> dict[str, Session]:
        sessions = dict(kept)
        others = self._asked = [WorkflowId(run) for run in runs if run not in sessions]
        taken = self._evaluator.take_all(others)
        self._asked = []
        for run in taken:
            try:
                sessions[run.workflow_id] = self._evaluator.session(run, self._serves)
            except StoreUnavailable:
                self._kept.orphan_run(run)
                raise
            except Exception as error:
                self._kept.orphan_run(run)
                self._commits.pause(run.workflow_id, error)
        self._kept.release_orphans()
        return sessions

    def _advance(self, session: Session, group: list[Done], marks: list[EventDefinition]) -> bool:
        """Evaluate one run in memory; False if that failed."""
        try:
            self._feed(session, group)
            if marks:
                session.consume(marks, fresh=True)
            self._evaluator.telemetry.log_resume(session.run.workflow_id)
            session.advance()
            return True
        except FencedError:
            self._commits.drop(session)
        except PayloadError as error:  # in a commit on the way
            self._commits.fail_unstorable(session, error)
        except StoreUnavailable:
            raise
        except Exception as error:
            self._commits.drop(session)
            self._commits.pause(session.run.workflow_id, error)
        return False

    def _feed(self, session: Session, group: list[Done]) -> None:
        fed = self._commits.fed[session.run.workflow_id] = []
        for each in group:
            step = session.context.require_step(StepId(each.task.step_id))
            if step.state != StepState.EVENT_TRANSMIT:
                self._answers.ignore(each)
            else:
                fed.append((each, self._answers.outcome(session.context.program, step, each)))
        crashpoint.reach("deliver.before")
        session.deliver([outcome for _, outcome in fed])

    def _look_again(self, session: Session) -> None:
        """A run was let go: somebody may have answered while we still had it."""
        run = session.run
        left = run.workflow_id not in self._kept and not run.is_over and run.waiting > 0
        if left and self._store.get_marks(WorkflowId(run.workflow_id), limit=1):
            self.evaluate(run.workflow_id)

    # -- letting go -------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Let go of runs that nothing happened to for a while, and of the oldest if there are many."""
        self._kept.release_orphans()
        for workflow_id in self._kept.stale(self._expects):
            self.let_go(workflow_id)

    def let_go_all(self) -> None:
        """Let go of every run."""
        self._kept.release_orphans()
        for workflow_id in self._kept.ids:
            self.let_go(workflow_id)

    def let_go(self, workflow_id: str) -> None:
        """Let go of a run."""
        run = self._kept.let_go(workflow_id)
        if run is not None:
            self._store.release_run(run)
            if self._store.get_marks(WorkflowId(workflow_id), limit=1):
                self.evaluate(workflow_id)
