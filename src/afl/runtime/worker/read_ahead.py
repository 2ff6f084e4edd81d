"""What an evaluation of several runs will need of the store, in one round trip each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from afl.runtime import paths
from afl.runtime.changes import EventDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.session import Session
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.task_in_hand import Done

Marks = Mapping[str, list[EventDefinition]]


def marks_for(store: PersistenceAPI, sessions: Mapping[str, Session]) -> Marks:
    """What others did for these runs meanwhile."""
    found: dict[str, list[EventDefinition]] = defaultdict(list)
    waiting = [WorkflowId(run) for run, session in sessions.items() if session.run.waiting > 0]
    for mark in store.get_marks_of(waiting) if waiting else []:
        found[mark.workflow_id].append(mark)
    return found


def read_ahead(
    store: PersistenceAPI,
    sessions: Mapping[str, Session],
    work: Mapping[str, list[Done]],
    marks: Marks,
) -> None:
    """Bring the steps that were answered, and all that is above them, into memory."""
    wanted: dict[StepId, Session] = {}
    for run, session in sessions.items():
        marked = {mark.step_id for mark in marks.get(run, [])}
        session.context.forget_waiting(list(marked))
        for step_id in {*marked, *(each.task.step_id for each in work[run])}:
            for each in _missing(session, step_id):
                if each in wanted:
                    break
                wanted[each] = session
    for step in store.get_steps(list(wanted)) if wanted else []:
        if not step.unreadable:  # found again when it is needed, which is the matter of its run alone
            wanted[step.id].context.adopt(step)


def _missing(session: Session, step_id: str) -> Iterator[StepId]:
    """A step and those above it, up to the first that is in memory."""
    above = StepId(step_id)
    while above and session.context.cached(above) is None:
        yield above
        above = paths.parent(above)
