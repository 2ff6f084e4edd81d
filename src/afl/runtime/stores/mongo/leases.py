"""Leases of claimed tasks: keeping them, giving them back, and taking away what nobody works on any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pymongo.database import Database

from afl.kernel.clock import wall_ms
from afl.runtime.entities import (
    SYSTEM_PREFIX,
    AttemptDefinition,
    AttemptOutcome,
    TaskDefinition,
    TaskHold,
    TaskState,
    attempt_of,
    released,
)
from afl.runtime.entities.timeouts import TIMEOUT_ERROR, timeout_text
from afl.runtime.persistence.topics import CANCEL_TOPIC, ELSEWHERE_TOPIC, RUNS_TOPIC, logs_topic, tasks_topic
from afl.runtime.stores.mongo.collections import (
    Collections,
    counted,
    lease,
    lease_ended,
    literal,
    longer,
    past,
)
from afl.runtime.stores.mongo.connection import NOW, Document
from afl.runtime.stores.mongo.records import map_value, task_from
from afl.runtime.stores.mongo.tasks import begins, elsewhere_or, held_by_its_claim, write_attempts

_PAUSED_OR_FREE: Document = {"$cond": [{"$eq": ["$paused", True]}, TaskHold.PAUSED, elsewhere_or("")]}


class LeaseCollection(Collections):
    """Keeping and losing a claim: the rest of ClaimStore, and `requeue` and `return_tasks` of TaskStore."""

    def next_due(self, task_list: str | None = None, workflow_id: str | None = None) -> int | None:
        delayed: Document = {
            "state": TaskState.PENDING,
            "hold": {"$in": ["", None]},
            "not_before": {"$gt": 0},
            "$expr": {"$gt": ["$not_before", NOW]},
        }
        if task_list is not None:
            delayed["task_list_name"] = task_list
        if workflow_id is not None:
            delayed["workflow_id"] = workflow_id
        stages = [
            {"$match": delayed},
            {"$group": {"_id": None, "first": {"$min": "$not_before"}}},
            {"$project": {"due": {"$subtract": ["$first", NOW]}}},
        ]
        found = self.connection.call(lambda db: list(db.tasks.aggregate(stages)))
        return int(found[0]["due"]) if found else None

    def renew(
        self,
        owner: str,
        lease_ms: int,
        lock_ms: int = 0,
        *,
        tasks: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
    ) -> list[tuple[str, int]]:
        held: Document = {"owner": owner, "state": TaskState.RUNNING, **_those(tasks)}
        evaluated: Document = {"owner": owner, **_those(runs)}
        times = {
            "lease_until": longer("lease_until", lease_ms),
            "lock_until": longer("lock_until", lock_ms or lease_ms),
        }

        def extend(database: Database[Document]) -> list[tuple[str, int]]:
            run_lease = longer("lease_until", self.run_lease_ms)
            database.runs.update_many(evaluated, [{"$set": {"lease_until": run_lease}}])
            database.tasks.update_many(held, [{"$set": times}])
            return [(each["uuid"], each["epoch"]) for each in database.tasks.find(held, _CLAIM)]

        return self.connection.call(extend)

    def held_tasks(self, owner: str) -> list[tuple[str, int]]:
        held: Document = {"owner": owner, "state": TaskState.RUNNING}

        def read(database: Database[Document]) -> list[tuple[str, int]]:
            return [(each["uuid"], each["epoch"]) for each in database.tasks.find(held, _CLAIM)]

        return self.connection.call(read)

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        until = {"$max": ["$lease_until", lease(lease_ms)]}
        return self._update("tasks", held_by_its_claim(task), [{"$set": {"lease_until": until}}])

    def requeue(self, task: TaskDefinition, delay_ms: int, error: dict[str, Any]) -> bool:
        expected: Document = {"uuid": task.uuid, "state": TaskState.PENDING, "epoch": task.epoch}
        if task.owner:
            expected = held_by_its_claim(task)
        change = {
            **_pending(_PAUSED_OR_FREE),
            **literal({"error": map_value(error, f"the error of task {task.uuid}")}),
            "failures": counted("failures"),
            "not_before": lease(delay_ms),
            "deadline": begins("timeout_ms", lease(delay_ms)),
            "lease_until": begins("patience_ms", lease(delay_ms)),
        }
        done = self._end_attempt(expected, change, task.attempt)
        if done:
            queue = ELSEWHERE_TOPIC if task.via else tasks_topic(task.task_list_name)
            self._notify([queue, logs_topic(task.workflow_id)])
        return done

    def return_tasks(self, tasks: Sequence[TaskDefinition], *, begun: bool = False) -> int:
        not_counted = {
            "deliveries": counted("deliveries", -1),
            "last_owner": {"$ifNull": ["$last_owner", ""]},
        }
        change = {**_pending(_PAUSED_OR_FREE), **({} if begun else not_counted)}
        returned = [
            task
            for task in tasks
            if self._end_attempt(held_by_its_claim(task), change, released(task) if begun else None)
        ]
        self._notify(tasks_topic(task.task_list_name) for task in returned)
        return len(returned)

    def _end_attempt(self, expected: Document, change: Document, attempt: AttemptDefinition | None) -> bool:
        """Change the one task that fits, and store its attempt; False if none fits."""

        def end(database: Database[Document]) -> bool:
            if not database.tasks.update_one(expected, [{"$set": change}]).matched_count:
                return False
            write_attempts(database, [] if attempt is None else [attempt])
            return True

        return self.connection.transaction(end)

    def release_tasks(self, owner: str, *, died: bool) -> int:
        freed = self._lost("deaths") if died else _pending(_PAUSED_OR_FREE)
        return self._free({"owner": owner}, freed, AttemptOutcome.DIED if died else AttemptOutcome.RELEASED)

    def reclaim(self, *, expired: bool = True) -> int:
        """Only a lease that ended says anything: this store has no proof of a process's death."""
        self._free_system_tasks()
        over_time = {"lease_until": {"$gt": 0}, **lease_ended()}
        lost = self._free(over_time, self._lost("expiries"), AttemptOutcome.EXPIRED) if expired else 0
        # The deadline stays, for whoever judges the task.
        late_ones = {**_pending(TaskHold.TIMEOUT), "deadline": "$deadline"}
        over = {"deadline": {"$gt": 0}, **past("deadline")}
        late = self._free(over, late_ones, AttemptOutcome.FAILED) + self._free(over, late_ones, of=_ELSEWHERE)
        if lost or late:
            self._notify([CANCEL_TOPIC])
        return lost + late + self._free_runs()

    def _free_system_tasks(self) -> None:
        """As `as_stored` does for tasks that come through here: others write their documents themselves."""
        bound = {"state": TaskState.PENDING, "name": {"$regex": f"^{SYSTEM_PREFIX}"}, "step_id": {"$gt": ""}}
        named = {"$mergeObjects": [{"step_id": "$step_id", "workflow_id": "$workflow_id"}, "$data"]}
        found = self._all("tasks", bound, projection={"task_list_name": 1})
        if found:
            freed = [{"$set": {"data": named, "step_id": ""}}]
            self.connection.call(lambda db: db.tasks.update_many(bound, freed))
            self._notify(tasks_topic(each["task_list_name"]) for each in found)

    def _lost(self, counter: str) -> Document:
        """A worker died with the task (`deaths`), or did not renew its lease (`expiries`)."""
        counts = {name: {"$ifNull": [f"${name}", 0]} for name in ("deaths", "expiries")}
        before = {"$add": list(counts.values())}
        begun = {"$gt": [{"$ifNull": ["$started", 0]}, 0]}
        first = {"$and": [{"$eq": [before, 0]}, self.max_deliveries > 1]}
        one = {"$cond": [{"$or": [begun, first]}, 1, 0]}
        poisoned = {"$gte": [{"$add": [before, one]}, self.max_deliveries]}
        hold = {"$cond": [poisoned, TaskHold.POISONED, _PAUSED_OR_FREE]}
        return {**_pending(hold), counter: {"$add": [counts[counter], one]}}

    def _free(
        self, condition: Document, change: Document, outcome: str = "", of: Document | None = None
    ) -> int:
        """Take tasks away from their owners, whose attempts end with an outcome, if they made any.

        Most of the time there are none, and reading is cheap.
        """
        held = {**(of or _RUNNING), **condition}
        if self._one("tasks", held, projection={"uuid": 1}) is None:
            return 0

        def free(database: Database[Document]) -> list[TaskDefinition]:
            tasks = [task_from(each) for each in database.tasks.find(held)]
            these = {"uuid": {"$in": [task.uuid for task in tasks]}}
            database.tasks.update_many(these, [{"$set": change}])
            write_attempts(database, [self._ended(task, outcome) for task in tasks if outcome])
            return tasks

        freed = self.connection.transaction(free)
        self._notify(
            topic
            for task in freed
            for topic in (tasks_topic(task.task_list_name), logs_topic(task.workflow_id))
        )
        return len(freed)

    def _ended(self, task: TaskDefinition, outcome: str) -> AttemptDefinition:
        late = outcome == AttemptOutcome.FAILED
        task.host, task.pid = self.connection.process(task.owner) or ("", 0)
        return attempt_of(
            task,
            outcome,
            ended=wall_ms(),
            error=timeout_text(task) if late else "",
            error_type=TIMEOUT_ERROR if late else "",
        )

    def _free_runs(self) -> int:
        lost = {"owner": {"$gt": ""}, **lease_ended()}
        if self._one("runs", lost, projection={"uuid": 1}) is None:
            return 0
        change = {"$set": {"owner": "", "lease_until": 0}, "$inc": {"epoch": 1}}
        freed = self.connection.call(lambda db: db.runs.update_many(lost, change).modified_count)
        self._notify([RUNS_TOPIC])
        return freed


def _those(ids: Sequence[str] | None) -> Document:
    """Of what an owner holds, only these."""
    return {} if ids is None else {"uuid": {"$in": list(ids)}}


_CLAIM = {"uuid": 1, "epoch": 1}
_RUNNING: Document = {"state": TaskState.RUNNING}
_ELSEWHERE: Document = {"state": TaskState.PENDING, "hold": TaskHold.ELSEWHERE}


def _pending(hold: Any) -> Document:
    """The fields of a task that waits again, under a new epoch; who had it last is remembered."""
    had = {"$ifNull": ["$owner", ""]}
    return {
        "state": TaskState.PENDING,
        "hold": hold,
        "last_owner": {"$cond": [{"$eq": [had, ""]}, {"$ifNull": ["$last_owner", ""]}, had]},
        "owner": "",
        "epoch": counted("epoch"),
        "lease_until": 0,
        "lock_until": 0,
        "deadline": 0,
        "started": 0,
        "updated": wall_ms(),
    }
