"""Signals in MongoDB."""

from __future__ import annotations

from pymongo.database import Database

from afl.runtime.entities import RunnerState, SignalDefinition, TaskDefinition, TaskHold, TaskState
from afl.runtime.persistence.signals import MOST_UNRECEIVED, SignalStored
from afl.runtime.stores.mongo.collections import OLDEST_FIRST, Collections
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.records import map_from, map_value, task_from
from afl.runtime.types import WorkflowId

_GOES_ON = [RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED]
_FIELDS = ("workflow_id", "id", "name", "created", "seq", "task_id")


class SignalCollection(Collections):
    """The SignalStore protocol."""

    def add_signal(self, signal: SignalDefinition) -> SignalStored:
        document: Document = {name: getattr(signal, name) for name in _FIELDS}
        document["value"] = map_value(signal.value, f"the value of signal {signal.name}")
        document["seq"] = self.connection.ticket(1).first

        def add(database: Database[Document]) -> SignalStored:
            run = {"uuid": signal.workflow_id}
            if database.signals.find_one(_key(signal.workflow_id, signal.id), {"_id": 1}):
                return SignalStored.DUPLICATE
            # Written, so that the run does not end meanwhile, and that two signals are not counted at once.
            going = database.runs.update_one({**run, "state": {"$in": _GOES_ON}}, {"$inc": {"signals": 1}})
            if not going.matched_count:
                return SignalStored.OVER
            unreceived = {"workflow_id": signal.workflow_id, "name": signal.name, "task_id": ""}
            if database.signals.count_documents(unreceived, limit=MOST_UNRECEIVED) >= MOST_UNRECEIVED:
                return SignalStored.FULL
            database.signals.insert_one({**document})
            return SignalStored.STORED

        return self.connection.transaction(add)

    def get_signal(self, workflow_id: WorkflowId, id: str) -> SignalDefinition | None:
        found = self._one("signals", _key(workflow_id, id))
        return _signal_from(found) if found else None

    def get_signals(
        self, workflow_id: WorkflowId, name: str = "", *, after: int = 0, limit: int = 100
    ) -> list[SignalDefinition]:
        query: Document = {"workflow_id": workflow_id, "task_id": "", "seq": {"$gt": after}}
        if name:
            query["name"] = name
        found = self._all("signals", query, sort=[("seq", 1)], limit=limit)
        return [_signal_from(each) for each in found]

    def get_signal_tasks(self, workflow_id: WorkflowId, name: str, limit: int = 1000) -> list[TaskDefinition]:
        query = {
            "hold": TaskHold.ELSEWHERE,
            "state": TaskState.PENDING,
            "via": f"signal:{name}",
            "workflow_id": workflow_id,
        }
        return [task_from(each) for each in self._all("tasks", query, sort=OLDEST_FIRST, limit=limit)]

    def get_receivable(
        self, workflow_id: WorkflowId | None = None, limit: int = 100
    ) -> list[tuple[WorkflowId, str]]:
        of_run = {} if workflow_id is None else {"workflow_id": workflow_id}
        awaited = {
            "via": {"$concat": ["signal:", "$_id.name"]},
            "run": "$_id.workflow_id",
        }
        waiting = {
            "$and": [{"$eq": ["$via", "$$via"]}, {"$eq": ["$workflow_id", "$$run"]}],
        }
        is_open = {"hold": TaskHold.ELSEWHERE, "state": TaskState.PENDING, "$expr": waiting}
        pipeline: list[Document] = [
            {"$match": {"task_id": "", **of_run}},
            {"$group": {"_id": {"workflow_id": "$workflow_id", "name": "$name"}}},
            {
                "$lookup": {
                    "from": "tasks",
                    "let": awaited,
                    "pipeline": [{"$match": is_open}, {"$limit": 1}, {"$project": {"_id": 1}}],
                    "as": "tasks",
                }
            },
            {"$match": {"tasks": {"$ne": []}}},
            {"$limit": limit},
        ]
        found = self.connection.call(lambda database: list(database.signals.aggregate(pipeline)))
        return [(each["_id"]["workflow_id"], each["_id"]["name"]) for each in found]


def _key(workflow_id: str, id: str) -> Document:
    return {"workflow_id": workflow_id, "id": id}


def _signal_from(document: Document) -> SignalDefinition:
    signal = SignalDefinition(**{name: document[name] for name in _FIELDS})
    try:
        signal.value = map_from(document["value"])
    except ValueError as error:
        signal.unreadable = f"the value of signal {signal.id} cannot be read: {error}"
    return signal
