"""What an operator does to a run, in MongoDB: pause, unpause, cancel. Whoever holds the run is fenced.

That a run is paused stands on each of its open tasks too: one that comes back from its worker meanwhile waits as well.
"""

from __future__ import annotations

from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.runtime.entities import AttemptOutcome, RunnerState, TaskHold, TaskState, attempt_of
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.persistence.history import HistoryKind
from afl.runtime.persistence.topics import (
    CANCEL_TOPIC,
    ELSEWHERE_TOPIC,
    RUNS_TOPIC,
    history_topic,
    run_topic,
    tasks_topic,
)
from afl.runtime.stores.mongo.collections import Collections, counted, literal
from afl.runtime.stores.mongo.commits import runner_end
from afl.runtime.stores.mongo.connection import NOW, Document, find_one_and_update
from afl.runtime.stores.mongo.history import append_history
from afl.runtime.stores.mongo.records import task_from
from afl.runtime.stores.mongo.tasks import UNTOLD, begins, elsewhere_or, write_attempts
from afl.runtime.stores.store_base import run_event_text
from afl.runtime.types import WorkflowId

_GOES_ON = [RunnerState.CREATED, RunnerState.RUNNING]
_OPEN_TASK = {"$in": [TaskState.PENDING, TaskState.RUNNING]}
_WHERE_IT_STOOD = {"$cond": [{"$eq": ["$iterations", 0]}, RunnerState.CREATED, RunnerState.RUNNING]}
_LET_GO: Document = {"owner": "", "lease_until": 0, "epoch": counted("epoch")}


_CANCELED: Document = {"$cond": [{"$eq": [{"$ifNull": ["$via", ""]}, ""]}, "", UNTOLD]}


class ControlCollection(Collections):
    """The ControlStore protocol."""

    def pause_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        def pause(database: Database[Document]) -> bool:
            fields = {"state": RunnerState.PAUSED, "reason": reason, "updated": wall_ms()}
            run = _change(database, workflow_id, _GOES_ON, {**literal(fields), **_LET_GO})
            if run is None:
                return False
            open_tasks = {"workflow_id": workflow_id, "state": _OPEN_TASK}
            database.tasks.update_many(open_tasks, [{"$set": _paused()}])
            _follow(database, run)
            append_history(database, workflow_id, run_event_text(HistoryKind.RUN_PAUSED, reason))
            return True

        paused = self.connection.transaction(pause)
        if paused:
            self._notify([run_topic(workflow_id), history_topic(workflow_id)])
        return paused

    def unpause_run(self, workflow_id: WorkflowId) -> bool:
        def unpause(database: Database[Document]) -> set[str] | None:
            fields = {**literal({"reason": "", "updated": wall_ms()}), "state": _WHERE_IT_STOOD}
            run = _change(database, workflow_id, [RunnerState.PAUSED], fields)
            if run is None:
                return None
            held = {"workflow_id": workflow_id, "paused": True}
            lists: list[str] = database.tasks.distinct("task_list_name", held)
            database.tasks.update_many(held, [{"$set": _going_on()}])
            _follow(database, run)
            append_history(database, workflow_id, run_event_text(HistoryKind.RUN_RESUMED))
            return set(lists)

        lists = self.connection.transaction(unpause)
        if lists is not None:
            self._notify([RUNS_TOPIC, ELSEWHERE_TOPIC, history_topic(workflow_id), *map(tasks_topic, lists)])
        return lists is not None

    def cancel_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        error = {"message": reason, "error_type": "Canceled"}

        def cancel(database: Database[Document]) -> bool:
            now = wall_ms()
            fields = {
                "state": RunnerState.CANCELED,
                "reason": reason,
                "error": error,
                "updated": now,
                "ended": now,
                "unindexed": True,
            }
            going = [*_GOES_ON, RunnerState.PAUSED]
            run = _change(database, workflow_id, going, {**literal(fields), **_LET_GO})
            if run is None:
                return False
            canceled = {
                **literal({"state": TaskState.CANCELED, "error": error, "updated": now}),
                "hold": _CANCELED,
            }
            open_tasks = {"workflow_id": workflow_id, "state": _OPEN_TASK}
            running = database.tasks.find({**open_tasks, "state": TaskState.RUNNING})
            attempts = [
                attempt_of(task_from(each), AttemptOutcome.CANCELED, ended=now, error=reason)
                for each in running
            ]
            write_attempts(database, attempts)
            database.tasks.update_many(open_tasks, [{"$set": {**canceled, "epoch": counted("epoch")}}])
            database.events.delete_many({"workflow_id": workflow_id, "event_type": STEP_CONTINUE})
            if run["runner_id"]:
                end = runner_end(RunnerState.CANCELED, now, workflow_id)
                database.runners.update_one({"uuid": run["runner_id"]}, end)
            append_history(database, workflow_id, run_event_text(HistoryKind.RUN_CANCELED, reason))
            return True

        canceled = self.connection.transaction(cancel)
        if canceled:
            self._notify([CANCEL_TOPIC, run_topic(workflow_id), history_topic(workflow_id)])
        return canceled


def _change(
    database: Database[Document],
    workflow_id: str,
    states: list[str],
    fields: Document,
) -> Document | None:
    """The run after the change; None if it is in none of the states."""
    return find_one_and_update(
        database.runs,
        {"uuid": workflow_id, "state": {"$in": states}},
        [{"$set": fields}],
        projection={"runner_id": 1, "state": 1},
    )


def _follow(database: Database[Document], run: Document) -> None:
    """The runner record follows the state of its run."""
    if run["runner_id"]:
        change = {"$set": {"state": run["state"]}}
        database.runners.update_one({"uuid": run["runner_id"]}, change)


def _paused() -> Document:
    waits = {
        "$and": [{"$eq": ["$state", TaskState.PENDING]}, {"$eq": [{"$ifNull": ["$hold", ""]}, ""]}],
    }
    return {"paused": True, "hold": {"$cond": [waits, TaskHold.PAUSED, {"$ifNull": ["$hold", ""]}]}}


def _going_on() -> Document:
    waited = {"$eq": ["$hold", TaskHold.PAUSED]}
    start = {"$max": [NOW, {"$ifNull": ["$not_before", 0]}]}
    return {
        "paused": False,
        "hold": {"$cond": [waited, elsewhere_or(""), "$hold"]},
        "deadline": {"$cond": [waited, begins("timeout_ms", start), "$deadline"]},
        "lease_until": {"$cond": [waited, begins("patience_ms", start), "$lease_until"]},
    }
