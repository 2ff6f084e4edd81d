"""Approvals that are over: what people answered, and what nobody did in time."""

from __future__ import annotations

from afl.operations.parameters import Limit
from afl.operations.people.questions import KIND, Approval, Questions
from afl.runtime.entities import TaskState
from afl.runtime.persistence import PersistenceAPI

_LOOKED_THROUGH = 2_000  # of the newest tasks of any kind: stores keep no list of those that people answered


def list_answered(store: PersistenceAPI, *, group: str = "", limit: Limit = 50) -> list[Approval]:
    """Questions that are answered, rejected, expired or canceled, the newest first; of one group, if named."""
    via = f"{KIND}:{group}"
    found = [
        task
        for task in store.get_all_tasks(_LOOKED_THROUGH)
        if task.state != TaskState.PENDING and (task.via == via if group else task.via.startswith(via))
    ]
    questions = Questions(store)
    every = [questions.approval(task) for task in found[:limit]]
    return sorted(every, key=lambda each: each.answered_at or each.created, reverse=True)
