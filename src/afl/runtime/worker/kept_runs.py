"""The runs that a worker keeps from one answer to the next, and those that it still has to release."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy

from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.session import Session

_MOST = 256
_EXPECTED_SECONDS = 1.0
_IDLE_SECONDS = 0.05


class KeptRuns:
    """Sessions by their run's id. An orphan is a run that is ours in the store, and of no use here any more."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self._sessions: dict[str, tuple[Session, float]] = {}
        self._orphans: list[RunDefinition] = []

    @property
    def busy(self) -> bool:
        """Whether any run is held."""
        return bool(self._sessions or self._orphans)

    @property
    def ids(self) -> list[str]:
        """The runs that are kept; from any thread."""
        return list(self._sessions)

    def __contains__(self, workflow_id: str) -> bool:
        return workflow_id in self._sessions

    def among(self, workflow_ids: list[str]) -> dict[str, Session]:
        """The sessions of those of the runs that are kept."""
        return {run: self._sessions[run][0] for run in workflow_ids if run in self._sessions}

    def keep(self, session: Session) -> None:
        """Keep a run; something has just happened to it."""
        self.forget(session.run.workflow_id)  # the order is that of the last happening
        self._sessions[session.run.workflow_id] = (session, time.monotonic())

    def forget(self, workflow_id: str) -> Session | None:
        """Keep a run no longer; its session, if it was kept."""
        kept = self._sessions.pop(workflow_id, None)
        return None if kept is None else kept[0]

    def let_go(self, workflow_id: str) -> RunDefinition | None:
        """Keep a run no longer, and nothing of it; the run, if it was kept."""
        session = self.forget(workflow_id)
        if session is None:
            return None
        session.context.forget_all()
        return session.run

    def stale(self, expects: Callable[[str], bool]) -> list[str]:
        """The runs that nothing happened to for a while, and the oldest if there are many."""
        now = time.monotonic()
        idle = [
            run
            for run, (_, last) in self._sessions.items()
            if now - last > (_EXPECTED_SECONDS if expects(run) else _IDLE_SECONDS)
        ]
        surplus = list(self._sessions)[: max(0, len(self._sessions) - _MOST)]
        return list(dict.fromkeys([*idle, *surplus]))

    # -- runs that are to be released -------------------------------------------------------------------------

    def orphan(self, session: Session) -> None:
        """Forget a session, but not that its run is to be released."""
        self.forget(session.run.workflow_id)
        session.context.forget_all()
        held = copy(session.run)
        held.owner = self._store.owner_id
        self._orphans.append(held)

    def orphan_run(self, run: RunDefinition) -> None:
        """A run that was taken, and that no session could be made for."""
        self._orphans.append(run)

    def release_orphans(self) -> None:
        """Release them. When the store fails on the way, the others are still to be released."""
        while self._orphans:
            self._store.release_run(self._orphans[-1])
            self._orphans.pop()
