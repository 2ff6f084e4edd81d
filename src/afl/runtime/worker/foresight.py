"""Steps that were read before anybody asked: those of tasks that were claimed for a run which is kept here.

Between the reading and the use the run's evaluator may have changed a step. What it changed is in its memory, which
counts, until all of that is forgotten; so nothing is used that was read before the memory was last emptied. Steps that
somebody else answered for are read anew as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from afl.runtime import paths
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.session import Session
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId


class Foresight:
    """What is known ahead of one session: its own steps, and where its memory stood."""

    def __init__(self, session: Session, steps: Sequence[StepDefinition], emptied: int) -> None:
        self._session = session
        self._emptied = emptied
        self._steps = {step.id: step for step in steps if not step.unreadable}

    def of(self, session: Session) -> dict[StepId, StepDefinition]:
        """What can be used for a session."""
        good = session is self._session and session.context.emptied == self._emptied
        return self._steps if good else {}


def foresee(
    store: PersistenceAPI, sessions: Mapping[str, Session], tasks: Sequence[TaskDefinition]
) -> Foresight | None:
    """Read what the answers of these tasks will need, for the run that most of them belong to; from any thread."""
    runs = [task.workflow_id for task in tasks if task.step_id]
    run = max(set(runs), key=runs.count, default="")
    session = sessions.get(run)
    if session is None:
        return None
    emptied = session.context.emptied
    wanted = dict.fromkeys(
        step_id
        for task in tasks
        if task.workflow_id == run and task.step_id
        for step_id in missing(session, task.step_id)
    )
    return Foresight(session, store.get_steps(list(wanted)) if wanted else [], emptied)


def missing(session: Session, step_id: str) -> Iterator[StepId]:
    """A step and those above it, up to the first that is in memory."""
    above = StepId(step_id)
    while above and session.context.cached(above) is None:
        yield above
        above = paths.parent(above)
