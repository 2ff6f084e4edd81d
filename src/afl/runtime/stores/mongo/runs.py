"""Runs in MongoDB, and when they are removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.kernel.errors import HeldError, StoreConflict
from afl.runtime.entities import (
    ParentClose,
    RunDefinition,
    RunnerDefinition,
    RunnerState,
    RunOutcome,
    TaskHold,
    TaskState,
    child_via,
)
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.persistence.runs import ANY_RUN, UNTOLD_MS, RunFilter
from afl.runtime.persistence.topics import RUNS_TOPIC
from afl.runtime.stores.mongo.collections import (
    NEWEST_RUN,
    Collections,
    beginning,
    lease,
    lease_ended,
    literal,
)
from afl.runtime.stores.mongo.connection import Document, find_one_and_update
from afl.runtime.stores.mongo.records import record_document, record_from, run_document, run_from
from afl.runtime.stores.mongo.run_lists import RunListCollection
from afl.runtime.stores.mongo.servers import counter_key
from afl.runtime.types import WorkflowId

_CAN_GO_ON = [RunnerState.CREATED, RunnerState.RUNNING]
_NEWEST_START = [("start_time", -1), ("uuid", 1)]
_RUNNER_COLUMNS = ("uuid", "workflow_id", "state", "start_time", "end_time", "duration")


class RunCollection(RunListCollection):
    """The RunStore and RunnerStore protocols."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        found = self._one("runs", {"uuid": workflow_id})
        return run_from(found) if found else None

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        query = {} if state is None else {"state": state}
        found = self._all("runs", query, sort=NEWEST_RUN, limit=limit) if limit > 0 else []
        return [run_from(each) for each in found]

    def find_runs(self, wanted: RunFilter = ANY_RUN) -> list[RunDefinition]:
        if wanted.limit < 1:
            return []
        asked = {"state": wanted.state, "workflow_name": wanted.workflow}
        query: Document = {field: value for field, value in asked.items() if value}
        if wanted.prefix:
            query["uuid"] = beginning(wanted.prefix)
        if wanted.waits:
            query["uuid"] = {"$in": self.runs_waiting(wanted.waits), **query.get("uuid", {})}
        if wanted.tags:
            query["tags"] = {"$all": list(wanted.tags)}
        if wanted.roots:
            query["parent_step"] = {"$in": ["", None]}
        if wanted.before:
            start = self.get_run(WorkflowId(wanted.before))
            if start is None:
                return []
            same = {"created": start.created, "uuid": {"$lt": wanted.before}}
            query["$and"] = [{"$or": [{"created": {"$lt": start.created}}, same]}]
        if wanted.since or wanted.until:
            query["created"] = {"$gte": wanted.since, **({"$lt": wanted.until} if wanted.until else {})}
        more = [*query.pop("$and", []), *self._conditions(wanted)]
        if more:
            query["$and"] = more
        found = self._all("runs", query, projection={"inputs": 0}, sort=NEWEST_RUN, limit=wanted.limit)
        return [run_from(each) for each in found]

    def _conditions(self, wanted: RunFilter) -> list[Document]:
        """What no index alone decides."""
        found = [self.with_text(wanted.text)] if wanted.text else []
        if wanted.cost_from or wanted.cost_to:
            found.append(self.by_cost(wanted.cost_from, wanted.cost_to))
        end = {"$cond": [{"$gt": ["$ended", 0]}, "$ended", wall_ms()]}
        took = {"$subtract": [end, "$created"]}
        for word, bound in (("$gte", wanted.longer), ("$lte", wanted.shorter)):
            if bound:
                found.append({"$expr": {word: [took, bound]}})
        return found

    def get_outcomes(self, workflow_ids: Sequence[WorkflowId]) -> list[RunOutcome]:
        named = {"uuid": {"$in": list(workflow_ids)}}
        found = self._all("runs", named, projection={"inputs": 0}) if workflow_ids else []
        return [RunOutcome.of(run_from(each)) for each in found]

    def insert_run(self, run: RunDefinition) -> bool:
        document = {**run_document(run), "lease_until": 0}
        try:
            self.connection.call(lambda db: db.runs.insert_one(document))
        except StoreConflict:
            return False
        self._notify([RUNS_TOPIC])
        return True

    def get_due_runs(self, limit: int = 100) -> list[WorkflowId]:
        if limit < 1:
            return []
        unsettled = {**_needs_nobody_else(), "settled": False}

        def look(database: Database[Document]) -> set[WorkflowId]:
            between = database.runs.find(unsettled, {"uuid": 1}, sort=[("uuid", 1)], limit=limit)
            marked = database.events.aggregate(_marked_runs(limit))
            return {each["uuid"] for each in between} | {each["_id"] for each in marked}

        return sorted(self.connection.call(look))[:limit]

    def take_run(self, workflow_id: WorkflowId, *, lease_ms: int) -> RunDefinition | None:
        while True:
            taken = self._take_free(workflow_id, lease_ms)
            if taken is not None:
                return taken
            run = self.get_run(workflow_id)
            if run is None or run.state not in _CAN_GO_ON:
                return run
            if run.owner:
                holder = self.connection.describe(run.owner)
                raise HeldError(f"run {workflow_id} is held by {holder}, whose lease has not ended")

    def take_runs(self, workflow_ids: Sequence[WorkflowId], *, lease_ms: int) -> list[RunDefinition]:
        taken = [self._take_free(workflow_id, lease_ms) for workflow_id in workflow_ids]
        runs = [run for run in taken if run is not None]
        for run in runs:
            if run.state == RunnerState.CREATED:
                stored = self.get_run(WorkflowId(run.workflow_id))
                if stored is not None:
                    run.inputs, run.unreadable = stored.inputs, stored.unreadable
        return runs

    def _take_free(self, workflow_id: WorkflowId, lease_ms: int) -> RunDefinition | None:
        free = {"uuid": workflow_id, **_needs_nobody_else()}
        hold = {"epoch": {"$add": ["$epoch", 1]}, "lease_until": lease(lease_ms)}
        change = [{"$set": {**literal({"owner": self.owner_id}), **hold}}]

        def take(database: Database[Document]) -> Document | None:
            return find_one_and_update(database.runs, free, change, projection={"inputs": 0})

        found = self.connection.call(take)
        return run_from(found) if found else None

    def release_run(self, run: RunDefinition) -> None:
        held = {"uuid": run.workflow_id, "owner": run.owner, "epoch": run.epoch}
        if self._update("runs", held, {"$set": {"owner": "", "lease_until": 0}}) and not run.settled:
            self._notify([RUNS_TOPIC])

    def get_runner(self, uuid: str) -> RunnerDefinition | None:
        found = self._one("runners", {"uuid": uuid})
        return record_from(found, RunnerDefinition) if found else None

    def save_runner(self, runner: RunnerDefinition) -> None:
        self._save("runners", record_document(runner, f"runner {runner.uuid}", _RUNNER_COLUMNS))

    def update_runner_state(self, uuid: str, state: str) -> bool:
        return self._update("runners", {"uuid": uuid}, {"$set": {"state": state}})

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        return self._runners({"state": state})

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        return self._runners({"workflow_id": workflow_id})

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        return self._runners({}, limit) if limit > 0 else []

    def _runners(self, query: Document, limit: int = 0) -> list[RunnerDefinition]:
        found = self._all("runners", query, sort=_NEWEST_START, limit=limit)
        return [record_from(each, RunnerDefinition) for each in found]


class ChildRunCollection(Collections):
    """The ChildRunStore protocol."""

    def get_children(
        self, parent: str, *, states: Sequence[str] = (), limit: int = 100
    ) -> list[RunDefinition]:
        if limit < 1:
            return []
        query = {**_started_by(parent), **({"state": {"$in": list(states)}} if states else {})}
        found = self._all("runs", query, projection={"inputs": 0}, sort=NEWEST_RUN, limit=limit)
        return [run_from(each) for each in found]

    def count_children(self, parent: str) -> dict[str, int]:
        counted = [{"$match": _started_by(parent)}, {"$group": {"_id": "$state", "found": {"$sum": 1}}}]
        found = self.connection.call(lambda database: list(database.runs.aggregate(counted)))
        return {each["_id"]: each["found"] for each in found}

    def get_unsettled_children(self, limit: int = 100) -> list[WorkflowId]:
        if limit < 1:
            return []

        def look(database: Database[Document]) -> list[WorkflowId]:
            shown, oldest = {"uuid": 1}, [("ended", 1)]
            untold = database.runs.find(_CHILD_UNTOLD, shown, sort=oldest, limit=limit)
            return [each["uuid"] for each in (*untold, *database.runs.aggregate(_unwanted(limit)))]

        return self.connection.call(look)[:limit]

    def parent_told(self, child: RunDefinition) -> bool:
        def tell(database: Database[Document]) -> bool:
            waits = {
                "step_id": child.parent_step,
                "state": TaskState.PENDING,
                "via": child_via(child.workflow_id),
            }
            if database.tasks.find_one(waits, {"uuid": 1}) is not None:
                return False
            untold = {"uuid": child.workflow_id, "parent_told": 0}
            told = database.runs.update_one(untold, {"$set": {"parent_told": 1}})
            return told.modified_count == 1

        return self.connection.transaction(tell)


_CHILD_UNTOLD: Document = {"parent_step": {"$gt": ""}, "parent_told": 0, "ended": {"$gt": 0}}


def _started_by(parent: str) -> Document:
    """The condition that a run, or a step or one below it, started a run."""
    below = {"parent_step": {"$gt": f"{parent}/", "$lt": f"{parent}0"}}  # the zero comes after the slash
    return {"$or": [{"parent_step": parent}, below]} if parent else {"parent_step": {"$gt": ""}}


def _unwanted(limit: int) -> list[Document]:
    """Open child runs that nobody waits for, that are to end with their parents, and whose parents are over."""
    return [
        {
            "$match": {
                "parent_step": {"$gt": ""},
                "parent_told": 1,
                "ended": 0,
                "on_parent_close": ParentClose.CANCEL,
            }
        },
        {"$set": {"parent": {"$first": {"$split": ["$parent_step", "/"]}}}},
        {
            "$lookup": {
                "from": "runs",
                "localField": "parent",
                "foreignField": "uuid",
                "pipeline": [{"$match": {"ended": 0}}, {"$project": {"uuid": 1}}],
                "as": "open",
            }
        },
        {"$match": {"open": []}},
        {"$limit": limit},
        {"$project": {"uuid": 1}},
    ]


def _needs_nobody_else() -> Document:
    """The condition that a run can go on and nobody has it."""
    return {"state": {"$in": _CAN_GO_ON}, "$or": [{"owner": ""}, lease_ended()]}


def _marked_runs(limit: int) -> list[Document]:
    return [
        {"$match": {"event_type": STEP_CONTINUE}},
        {"$group": {"_id": "$workflow_id"}},
        {"$sort": {"_id": 1}},
        {
            "$lookup": {
                "from": "runs",
                "localField": "_id",
                "foreignField": "uuid",
                "pipeline": [{"$match": _needs_nobody_else()}, {"$project": {"uuid": 1}}],
                "as": "run",
            }
        },
        {"$match": {"run": {"$ne": []}}},
        {"$limit": limit},
    ]


_ENDED = [TaskState.COMPLETED, TaskState.FAILED, TaskState.IGNORED, TaskState.CANCELED]
_UNTOLD: Document = {"hold": TaskHold.ELSEWHERE, "state": {"$in": _ENDED}}


class RetentionCollection(Collections):
    """The RetentionStore protocol."""

    def delete_runs(self, ended_before: int, limit: int, among: Sequence[str] | None = None) -> int:
        if limit < 1:
            return 0
        ended: Document = {"ended": {"$gt": 0, "$lt": ended_before}}
        untold = self.connection.call(lambda database: database.tasks.distinct("workflow_id", _UNTOLD))
        if untold:  # the other side works on for them until it is told, or for a day
            ended = {**ended, "$or": [{"ended": {"$lt": wall_ms() - UNTOLD_MS}}, {"uuid": {"$nin": untold}}]}
        untold_child = {
            "parent_step": {"$gt": ""},
            "parent_told": 0,
            "ended": {"$gte": wall_ms() - UNTOLD_MS},
        }
        named = [] if among is None else [{"uuid": {"$in": list(among)}}]
        ended = {"$and": [ended, {"$nor": [untold_child]}, *named]}
        shown = {"uuid": 1, "runner_id": 1}
        found = self._all("runs", ended, projection=shown, sort=[("ended", 1)], limit=limit)
        return self.connection.call(lambda database: _delete_runs(database, found)) if found else 0

    def delete_tasks(self, ended_before: int, limit: int) -> int:
        old = _loose(ended_before)
        found = (
            self._all("tasks", old, projection={"uuid": 1}, sort=[("updated", 1)], limit=limit)
            if limit > 0
            else []
        )
        ids = [each["uuid"] for each in found]
        if not ids:
            return 0
        self.connection.call(lambda database: database.attempts.delete_many({"task_id": {"$in": ids}}))
        return self.connection.call(
            lambda database: database.tasks.delete_many({"uuid": {"$in": ids}, **old}).deleted_count
        )

    def delete_logs(self, written_before: int, limit: int) -> int:
        if limit < 1:
            return 0
        found = self._all("logs", {"runner_id": ""}, projection={"_id": 1}, sort=[("seq", 1)], limit=limit)
        old: Document = {"_id": {"$in": [each["_id"] for each in found]}, "time": {"$lt": written_before}}
        return (
            self.connection.call(lambda database: database.logs.delete_many(old).deleted_count)
            if found
            else 0
        )

    def count_old_tasks(self, ended_before: int) -> int:
        return self.connection.call(lambda database: database.tasks.count_documents(_loose(ended_before)))


def _loose(ended_before: int) -> Document:
    """Tasks of no step that ended, as far as is known; whether anybody elsewhere is to be told of it matters more."""
    return {
        "step_id": "",
        "state": {"$in": _ENDED},
        "hold": {"$ne": TaskHold.ELSEWHERE},
        "updated": {"$gt": 0, "$lt": ended_before},
    }


def _delete_runs(database: Database[Document], runs: list[Document]) -> int:
    """Runs with all that belongs to them, they themselves last: whoever is interrupted here can begin again.

    How many this one removed: others may be at the same ones.
    """
    ids = [run["uuid"] for run in runs]
    records = [run["runner_id"] for run in runs if run["runner_id"]]
    of_runs: dict[str, Any] = {"workflow_id": {"$in": ids}}
    for name in ("steps", "events", "tasks", "attempts", "published", "history", "signals", "usage"):
        database[name].delete_many(of_runs)
    database.logs.delete_many({"runner_id": {"$in": [*ids, *records]}})
    database.counters.delete_many({"_id": {"$in": [counter_key(each) for each in (*ids, *records)]}})
    database.runners.delete_many({"uuid": {"$in": records}})
    return database.runs.delete_many({"uuid": {"$in": ids}}).deleted_count
