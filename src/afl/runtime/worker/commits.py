"""Storing what came of evaluations, several runs together.

What handlers answered stays here until it is stored. When the store fails on the way, nobody knows whether it was:
storing it again does no harm, since it is fenced.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from afl.kernel import crashpoint, telemetry
from afl.kernel.errors import AgentFlowError, FencedError, PayloadError
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


class Commits:
    """`fed` has the answers that sessions were given and that are not stored, by run; `born` the tasks made by them."""

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

    def claims(self) -> list[TaskDefinition]:
        """The tasks whose answers are not stored, as far as it is known, and those just born; from any thread."""
        return [*self.born, *self.undelivered.tasks()]

    # -- storing ----------------------------------------------------------------------------------------------

    def store(self, sessions: list[Session]) -> tuple[set[str], list[Session]]:
        """Store what came of these, and keep runs only while there is work for them here.

        Which runs are stored; and their sessions.
        """
        kept = {session.run.workflow_id for session in sessions if self._is_kept(session)}
        changes = [session.conclude(keep=session.run.workflow_id in kept) for session in sessions]
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
        for each, outcome in self.fed.pop(workflow_id, []):
            self._answers.tell(each, outcome)
        if keep and not session.run.is_over:
            self._kept.keep(session)
        else:
            self._kept.forget(workflow_id)

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
        """Forget a session, but not that its run is to be released; what it was fed is not stored."""
        self.fed.pop(session.run.workflow_id, None)
        self._kept.orphan(session)
