"""Tasks that are done elsewhere, in MongoDB: handed over, asked for again, ended, and told of their end."""

from __future__ import annotations

from typing import Any

from afl.kernel.clock import wall_ms
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence.topics import ELSEWHERE_TOPIC
from afl.runtime.stores.mongo.collections import OLDEST_FIRST, Collections, counted, lease, literal, past
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import task_from
from afl.runtime.stores.mongo.tasks import held_by_its_claim, of_kind
from afl.runtime.stores.mongo.values import map_value

_OPEN = [TaskState.PENDING, TaskState.RUNNING]
_VIA: Document = {"$ifNull": ["$via", ""]}
_IS_HUMAN: Document = {"$eq": [{"$substrBytes": [_VIA, 0, 6]}, "human:"]}

# What the hold of a task becomes when somebody but the other side ends it: the mark that it has not been told.
UNTOLD: Document = {
    "$cond": [
        {"$eq": [_VIA, ""]},
        {"$ifNull": ["$hold", ""]},
        {"$cond": [_IS_HUMAN, "", TaskHold.ELSEWHERE]},
    ]
}


def new_elsewhere(task: Document, now: int) -> Document:
    """What a new task that is done elsewhere has besides: its times begin at once."""
    return {
        "hold": TaskHold.ELSEWHERE,
        "deadline": now + task["timeout_ms"] if task["timeout_ms"] else 0,
        "lease_until": now + task["patience_ms"] if task["patience_ms"] else 0,
    }


def elsewhere_or(hold: Any) -> Document:
    """The hold of a task that may go on: elsewhere, if that is where it is done."""
    return {"$cond": [{"$eq": [_VIA, ""]}, hold, TaskHold.ELSEWHERE]}


def begins(length: str, start: Any) -> Document:
    """The end of a time (`timeout_ms`, `patience_ms`) of a task elsewhere that begins at `start`; 0 without any."""
    has_one = {"$and": [{"$ne": [_VIA, ""]}, {"$gt": [{"$ifNull": [f"${length}", 0]}, 0]}]}
    return {"$cond": [has_one, {"$add": [start, f"${length}"]}, 0]}


class ElsewhereCollection(Collections):
    """The ElsewhereStore protocol."""

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        place = {
            "state": TaskState.PENDING,
            "hold": TaskHold.ELSEWHERE,
            "via": via,
            "bridge": map_value(bridge, f"the bridge of task {task.uuid}"),
            "patience_ms": patience_ms,
            "last_owner": task.owner,
            "owner": "",
            "lock_until": 0,
            "started": 0,
            "updated": wall_ms(),
        }
        times = {
            "epoch": counted("epoch"),
            "deadline": {"$cond": [{"$gt": ["$timeout_ms", 0]}, {"$add": [NOW, "$timeout_ms"]}, 0]},
            "lease_until": lease(patience_ms) if patience_ms else 0,
        }
        return self._moved(held_by_its_claim(task), {**literal(place), **times})

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        over = {"lease_until": {"$gt": 0}, **past("lease_until")}
        return self._elsewhere({"state": TaskState.PENDING, **over}, limit)

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        asked = {
            "via": via,
            "bridge": map_value(task.bridge, f"the bridge of task {task.uuid}"),
            "patience_ms": task.patience_ms,
            "updated": wall_ms(),
        }
        until = lease(task.patience_ms) if task.patience_ms else 0
        return self._moved(still_elsewhere(task), {**literal(asked), "lease_until": until})

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        return self._elsewhere({"state": {"$nin": _OPEN}, "via": of_kind(kind)}, limit)

    def told(self, task: TaskDefinition) -> bool:
        untold = {"uuid": task.uuid, "hold": TaskHold.ELSEWHERE, "state": {"$nin": _OPEN}}
        return self._update("tasks", untold, {"$set": {"hold": ""}})

    def _elsewhere(self, query: Document, limit: int) -> list[TaskDefinition]:
        if limit < 1:
            return []
        found = self._all("tasks", {"hold": TaskHold.ELSEWHERE, **query}, sort=OLDEST_FIRST, limit=limit)
        return [task_from(each) for each in found]

    def _moved(self, expected: Document, change: Document) -> bool:
        done = self._update("tasks", expected, [{"$set": change}])
        if done:
            self._notify([ELSEWHERE_TOPIC])
        return done


def still_elsewhere(task: TaskDefinition) -> Document:
    """The condition that a task is where the caller thinks."""
    return {
        "uuid": task.uuid,
        "state": TaskState.PENDING,
        "hold": TaskHold.ELSEWHERE,
        "epoch": task.epoch,
        "via": task.via,
    }
