"""Storing what came of evaluations: several runs together, or the large commit of one run while its next answers come.

What handlers answered stays here until it is stored. When the store fails on the way, nobody knows whether it was:
storing it again does no harm, since it is fenced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from afl.kernel import crashpoint, telemetry
from afl.kernel.errors import AgentFlowError, FencedError, PayloadError, StoreConflict, StoreError
from afl.runtime.changes import Outcome
from afl.runtime.entities import CANNOT_BE_EVALUATED, TaskDefinition
from afl.runtime.in_hand import claiming
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.session import Session
from afl.runtime.types import WorkflowId
from afl.runtime.worker.answers import Answers
from afl.runtime.worker.kept_runs import KeptRuns
from afl.runtime.worker.task_in_hand import Done
from afl.runtime.worker.undelivered import Undelivered

_log = logging.getLogger(__name__)

Fed = list[tuple[Done, Outcome]]
_MOST_CAREFUL = 1000


class Commits:
    """`fed` has the answers that a session was given and that are not stored, by run; `born` the tasks that came of it.

    At most one commit is under way at a time.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        answers: Answers,
        kept: KeptRuns,
        expects: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._answers = answers
        self._kept = kept
        self._expects = expects
        self.fed: dict[str, Fed] = {}
        self.born: list[TaskDefinition] = []
        self.undelivered = Undelivered()
        self._airborne: tuple[Session, Fed] | None = None
        self._flies = True
        self._careful: set[str] = (
            set()
        )  # runs of which a flight came to nothing: their next commit is waited for

    @property
    def airborne(self) -> str:
        """The run whose commit is under way; empty if there is none."""
        return "" if self._airborne is None else self._airborne[0].run.workflow_id

    def claims(self) -> list[TaskDefinition]:
        """The tasks whose answers are not stored, as far as it is known, and those just born; from any thread."""
        flights = [self._airborne]
        waiting = [*self.born, *self.undelivered.tasks()]
        flights.append(self._airborne)  # once more: some may have gone from one to the other meanwhile
        return [*waiting, *(each.task for flight in flights if flight is not None for each, _ in flight[1])]

    # -- storing ----------------------------------------------------------------------------------------------

    def store(self, sessions: list[Session]) -> tuple[set[str], list[Session]]:
        """Store what came of these, and keep runs only while there is work for them here.

        Which runs are stored; and the sessions of those that are, unless that is still under way.
        """
        lost = self._settle()
        sessions = [session for session in sessions if session is not lost]
        kept = {session.run.workflow_id for session in sessions if self._is_kept(session)}
        changes = [session.conclude(keep=session.run.workflow_id in kept) for session in sessions]
        if len(sessions) == 1 and kept and self._may_fly(sessions[0]):
            return self._launch(sessions[0]), []
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
        return stored | {s.run.workflow_id for s, p in refused if self._refused(s, p)}, good

    def _is_kept(self, session: Session) -> bool:
        if session.context.claimed:
            return True
        return session.run.waiting > 0 and self._expects(session.run.workflow_id)

    def _take_note(self, session: Session, *, keep: bool) -> None:
        workflow_id = session.run.workflow_id
        session.stored()
        self.born += session.tasks
        fed = self.fed.pop(workflow_id, [])
        self._tell(fed)
        if fed:
            self._careful.discard(workflow_id)
        if keep and not session.run.is_over:
            self._kept.keep(session)
        else:
            self._kept.forget(workflow_id)

    def _tell(self, fed: Fed) -> None:
        for each, outcome in fed:
            self._answers.tell(each, outcome)

    # -- a commit under way -----------------------------------------------------------------------------------

    def _may_fly(self, session: Session) -> bool:
        return self._flies and session.run.workflow_id not in self._careful and session.may_fly

    def ground(self) -> None:
        """Wait for the commit under way, and from now on for every other. If it fails, its answers are undelivered."""
        self._flies = False
        try:
            self.land()
        except StoreError as error:
            _log.warning("a commit under way failed: %s", error)

    def _launch(self, session: Session) -> set[str]:
        workflow_id = session.run.workflow_id
        try:
            session.launch()
        except (FencedError, PayloadError, StoreConflict) as problem:
            return {workflow_id} if self._refused(session, problem) else set()
        self._airborne = session, self.fed.pop(workflow_id, [])
        self._kept.keep(session)
        return {workflow_id}

    def land(self) -> None:
        """Wait for the commit under way, with nothing else in hand."""
        try:
            self._settle()
        except StoreError:
            if self._airborne is not None:
                self.orphan(self._airborne[0])
            raise

    def _settle(self) -> Session | None:
        """Wait for the commit under way. If it was refused: the session, which is of no use any more."""
        if self._airborne is None:
            return None
        session, fed = self._airborne
        try:
            session.land()
        except (FencedError, PayloadError, StoreConflict) as problem:
            _log.debug("run %s: %s; storing its answers anew", session.run.workflow_id, problem)
            self.drop(session)
            return session
        self._airborne = None
        self._tell(fed)
        return None

    # -- what goes wrong --------------------------------------------------------------------------------------

    def _refused(self, session: Session, problem: AgentFlowError) -> bool:
        """What becomes of a run that could not be stored; True if that itself is stored."""
        if isinstance(problem, PayloadError):
            return self.fail_unstorable(session, problem)
        self.drop(session)
        if not isinstance(problem, FencedError):
            self.pause(session.run.workflow_id, problem)
        return False

    def pause(self, workflow_id: str, problem: Exception) -> None:
        """The run cannot be evaluated, and trying again would not help: somebody must look at it."""
        reason = (
            str(problem) if isinstance(problem, AgentFlowError) else f"{type(problem).__name__}: {problem}"
        )
        _log.error("run %s cannot be evaluated and is paused: %s", workflow_id, reason, exc_info=problem)
        self._store.pause_run(WorkflowId(workflow_id), f"{CANNOT_BE_EVALUATED}: {reason}")

    def fail_unstorable(self, session: Session, error: PayloadError) -> bool:
        """A value cannot be stored, and so the run fails; True if that could be stored."""
        try:
            session.fail_unstorable(error)
        except FencedError:
            self.drop(session)
            return False
        self._kept.forget(session.run.workflow_id)
        return True

    def drop(self, session: Session) -> None:
        """Something it wrote to was taken away: what it has in memory is of no use any more."""
        self.orphan(session)
        self._kept.release_orphans()

    def orphan(self, session: Session) -> None:
        """Forget a session, but not that its run is to be released; what it was fed is not stored.

        What it has under way may be stored all the same; if not, those answers are to be delivered again.
        """
        self.fed.pop(session.run.workflow_id, None)
        self._kept.orphan(session)
        if self._airborne is not None and self._airborne[0] is session:
            fed = self._airborne[1]
            try:
                session.land()
                self._tell(fed)
            except AgentFlowError:
                self._be_careful(session.run.workflow_id)
                self.undelivered.add([each for each, _ in fed])
            self._airborne = None

    def _be_careful(self, workflow_id: str) -> None:
        if len(self._careful) >= _MOST_CAREFUL:  # of runs that others have finished long since
            self._careful.clear()
        self._careful.add(workflow_id)
