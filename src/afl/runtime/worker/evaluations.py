"""The runs that a worker evaluates: it takes them, brings them what handlers answered, and lets them go.

All runs that have something to do are evaluated together: one round trip takes them, one reads what they need, one
stores what came of it. A run is kept from one answer to the next while tasks of it are in hand here. A run that
somebody else holds gets its answers as StepContinue marks, for its holder to consume.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence

from afl.kernel import collector, crashpoint, telemetry
from afl.kernel.errors import (
    AgentFlowError,
    FencedError,
    PayloadError,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)
from afl.runtime.changes import EventDefinition, Outcome
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.in_hand import claiming
from afl.runtime.session import Session
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.answers import Answers, Observe
from afl.runtime.worker.kept_runs import KeptRuns
from afl.runtime.worker.put_off_runs import PutOffRuns
from afl.runtime.worker.read_ahead import marks_for, read_ahead
from afl.runtime.worker.task_in_hand import Done

_log = logging.getLogger(__name__)

_TOGETHER = 100
Fed = list[tuple[Done, Outcome]]


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
        self._put_off = PutOffRuns()
        self._born: list[TaskDefinition] = []
        self._undelivered: dict[str, list[Done]] = {}
        self._fed: dict[str, Fed] = {}
        self._airborne: tuple[Session, Fed] | None = None
        self._held: frozenset[str] = frozenset()
        self._asked: list[WorkflowId] = []

    @property
    def busy(self) -> bool:
        """Whether anything is held: runs, or answers that are not stored yet."""
        return bool(self._kept.busy or self._undelivered or self._airborne)

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
        answered = [each.task for group in list(self._undelivered.values()) for each in list(group)]
        airborne = self._airborne
        flying = [] if airborne is None else [each.task for each, _ in airborne[1]]
        return [*self._born, *answered, *flying]

    @property
    def undelivered(self) -> bool:
        """Whether there are answers that are not stored yet, or could not be; `deliver` sees to it."""
        return bool(self._undelivered or self._airborne)

    @property
    def airborne(self) -> bool:
        """Whether a commit is under way; `deliver` with nothing waits for it."""
        return self._airborne is not None

    def born(self) -> list[TaskDefinition]:
        """Tasks that were created here, claimed at their birth; to be worked on now."""
        tasks, self._born = self._born, []
        return tasks

    # -- what there is to do ----------------------------------------------------------------------------------

    def deliver(self, done: Sequence[Done]) -> None:
        """Store what handlers answered, and go on with their runs.

        An answer is kept until it is stored. When the store fails on the way, nobody knows whether it was: storing it
        again does no harm, since it is fenced. A large commit may still be under way at the end: more answers for the
        same run can be evaluated meanwhile.
        """
        if not done:
            self._land()
        for each in done:
            self._undelivered.setdefault(each.task.workflow_id, []).append(each)
        while self._undelivered:
            batch = {run: [*group] for run, group in list(self._undelivered.items())[:_TOGETHER]}
            judged = {run: self._answers.without_retries(group) for run, group in batch.items()}
            judged = {run: group for run, group in judged.items() if group}
            delivered = self._go_on(judged)
            for run, group in judged.items():
                if run not in delivered:
                    self._answers.leave(self._evaluator.programs, run, group)
            for run, group in batch.items():
                self._forget_answers(run, len(group))
            left: dict[str, list[Done]] = {run: [] for run in judged if run not in delivered}
            self._go_on(left)  # if its holder has let go meanwhile

    def _forget_answers(self, run: str, count: int) -> None:
        """The first ones are stored; behind them may stand others, of a commit that came to nothing meanwhile."""
        self._undelivered[run] = self._undelivered[run][count:]
        if not self._undelivered[run]:
            del self._undelivered[run]

    def evaluate_due(self) -> int:
        """Go on with runs that need an evaluator and have none; how many were found."""
        self._put_off.forget_old()
        due = self._put_off.without([*self._store.get_due_runs(_TOGETHER + len(self._put_off))])[:_TOGETHER]
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
        if self._airborne is not None and not work.get(self._airborne[0].run.workflow_id):
            self._land()
        self._kept.release_orphans()
        sessions = self._take(list(work))
        self._held = frozenset(sessions)
        try:
            with collector.paused():  # a batch of answers makes many objects, and leaves few
                marks = marks_for(self._store, sessions)
                read_ahead(self._store, sessions, work, marks)
                advanced = [
                    session
                    for run, session in sessions.items()
                    if self._advance(session, work[run], marks.get(run, []))
                ]
                return self._store_all(advanced)
        except StoreError:
            for session in sessions.values():
                self._orphan(session)
            raise
        finally:
            self._held = frozenset()

    def _take(self, runs: list[str]) -> dict[str, Session]:
        sessions = self._kept.among(runs)
        others = self._asked = [WorkflowId(run) for run in runs if run not in sessions]
        taken = self._evaluator.take_all(others)
        self._asked = []
        for run in taken:
            try:
                sessions[run.workflow_id] = self._evaluator.session(run, self._serves)
            except StoreUnavailable:
                self._kept.orphan_run(run)
                raise
            except Exception:
                self._kept.orphan_run(run)
                self._try_later(run.workflow_id)
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
            self._drop(session)
        except PayloadError as error:  # in a commit on the way
            self._fail_unstorable(session, error)
        except StoreUnavailable:
            raise
        except Exception:
            self._drop(session)
            self._try_later(session.run.workflow_id)
        return False

    def _fail_unstorable(self, session: Session, error: PayloadError) -> bool:
        try:
            session.fail_unstorable(error)
        except FencedError:
            self._drop(session)
            return False
        self._kept.forget(session.run.workflow_id)
        return True

    def _feed(self, session: Session, group: list[Done]) -> None:
        fed = self._fed[session.run.workflow_id] = []
        for each in group:
            step = session.context.step(StepId(each.task.step_id))
            if step is None or step.state != StepState.EVENT_TRANSMIT:
                self._answers.ignore(each)
            else:
                fed.append((each, self._answers.outcome(session.context.program, step, each)))
        crashpoint.reach("deliver.before")
        session.deliver([outcome for _, outcome in fed])

    def _store_all(self, sessions: list[Session]) -> set[str]:
        """Store what came of it, and keep runs only while there is work for them here."""
        lost = self._settle()
        sessions = [session for session in sessions if session is not lost]
        kept = {session.run.workflow_id for session in sessions if self._is_kept(session)}
        changes = [session.conclude(keep=session.run.workflow_id in kept) for session in sessions]
        if len(sessions) == 1 and kept and sessions[0].may_fly:
            return self._launch(sessions[0])
        crashpoint.reach("commit.before")
        begun = time.monotonic()
        with claiming():
            problems = self._store.commit_all(changes) if changes else []
        telemetry.record("afl.commit.seconds", time.monotonic() - begun)
        crashpoint.reach("commit.after")
        good = [session for session, problem in zip(sessions, problems, strict=True) if problem is None]
        for session in good:  # nothing here asks the store: what was born must be in somebody's hands first
            self._take_note(session, keep=session.run.workflow_id in kept)
        refused = [(s, p) for s, p in zip(sessions, problems, strict=True) if p is not None]
        stored = {session.run.workflow_id for session in good}
        stored |= {s.run.workflow_id for s, p in refused if self._refused(s, p)}
        for session in good:
            self._look_again(session)
        return stored

    def _take_note(self, session: Session, *, keep: bool) -> None:
        workflow_id = session.run.workflow_id
        session.stored()
        self._born += session.tasks
        self._tell(self._fed.pop(workflow_id, []))
        if keep and not session.run.is_over:
            self._kept.keep(session)
        else:
            self._kept.forget(workflow_id)

    def _tell(self, fed: Fed) -> None:
        for each, outcome in fed:
            self._answers.tell(each, outcome)

    def _refused(self, session: Session, problem: AgentFlowError) -> bool:
        """What becomes of a run that could not be stored; True if that itself is stored."""
        if isinstance(problem, PayloadError):
            return self._fail_unstorable(session, problem)
        self._drop(session)
        if not isinstance(problem, FencedError):
            _log.error("run %s: %s", session.run.workflow_id, problem)
            self._put_off.add(session.run.workflow_id)
        return False

    def _is_kept(self, session: Session) -> bool:
        if session.context.claimed:
            return True
        return session.run.waiting > 0 and self._expects(session.run.workflow_id)

    def _look_again(self, session: Session) -> None:
        """A run was let go: somebody may have answered while we still had it."""
        run = session.run
        left = run.workflow_id not in self._kept and not run.is_over and run.waiting > 0
        if left and self._store.get_marks(WorkflowId(run.workflow_id), limit=1):
            self.evaluate(run.workflow_id)

    # -- commits under way ------------------------------------------------------------------------------------

    def _launch(self, session: Session) -> set[str]:
        """Store what came of an evaluation, and do not wait for it."""
        workflow_id = session.run.workflow_id
        try:
            session.launch()
        except (FencedError, PayloadError, StoreConflict) as problem:
            return {workflow_id} if self._refused(session, problem) else set()
        self._airborne = session, self._fed.pop(workflow_id, [])
        self._kept.keep(session)
        return {workflow_id}

    def _land(self) -> None:
        """Wait for the commit under way, with nothing else in hand."""
        try:
            self._settle()
        except StoreError:
            if self._airborne is not None:
                self._orphan(self._airborne[0])
            raise

    def _settle(self) -> Session | None:
        """Wait for the commit under way. If it was refused: the session, which is of no use any more."""
        if self._airborne is None:
            return None
        session, fed = self._airborne
        try:
            session.land()
        except PayloadError as problem:
            self._airborne = None
            self._fail_unstorable(session, problem)
            return session
        except (FencedError, StoreConflict) as problem:
            self._refused(session, problem)
            return session
        self._airborne = None
        self._tell(fed)
        return None

    # -- what goes wrong --------------------------------------------------------------------------------------

    def _drop(self, session: Session) -> None:
        """Something it wrote to was taken away: what it has in memory is of no use any more."""
        self._orphan(session)
        self._kept.release_orphans()

    def _orphan(self, session: Session) -> None:
        """Forget a session, but not that its run is to be released; what it was fed is not stored.

        What it has under way may be stored all the same; if not, those answers are to be delivered again.
        """
        self._fed.pop(session.run.workflow_id, None)
        self._kept.orphan(session)
        if self._airborne is not None and self._airborne[0] is session:
            fed = self._airborne[1]
            try:
                session.land()
                self._tell(fed)
            except AgentFlowError:
                self._undelivered.setdefault(session.run.workflow_id, []).extend(each for each, _ in fed)
            self._airborne = None

    def _try_later(self, workflow_id: str) -> None:
        _log.exception("run %s cannot be evaluated; trying again later", workflow_id)
        self._put_off.add(workflow_id)

    # -- letting go -------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Let go of runs that nothing happened to for a while, and of the oldest if there are many."""
        self._kept.release_orphans()
        for workflow_id in self._kept.stale(self._expects):
            self.let_go(workflow_id)

    def let_go_all(self) -> None:
        """Let go of every run."""
        self._land()
        for workflow_id in self._kept.ids:
            self.let_go(workflow_id)

    def let_go(self, workflow_id: str) -> None:
        """Let go of a run."""
        self._land()
        run = self._kept.let_go(workflow_id)
        if run is not None:
            self._store.release_run(run)
            if self._store.get_marks(WorkflowId(workflow_id), limit=1):
                self.evaluate(workflow_id)
