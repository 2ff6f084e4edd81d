"""Claims in SQL: taking tasks, keeping them, and taking away what nobody works on any more."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from afl.kernel.clock import wall_ms
from afl.kernel.database import Row, Transaction
from afl.kernel.notify import Notifications
from afl.kernel.presence import Life, Process
from afl.runtime.entities import AttemptDefinition, AttemptOutcome, TaskDefinition, attempt_of
from afl.runtime.entities.timeouts import TIMEOUT_ERROR, timeout_text
from afl.runtime.persistence.topics import CANCEL_TOPIC, RUNS_TOPIC, tasks_topic
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from, write_attempts
from afl.runtime.stores.sql_store.tasks import promote, waiting_keys
from afl.runtime.types import WorkflowId

_QUIET_SECONDS = 0.005


class ClaimTables(Tables):
    """The ClaimStore protocol."""

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        while_alive: bool = False,
        workflow_id: str | None = None,
        any_event: bool = False,
    ) -> list[TaskDefinition]:
        where = {"task_list": task_list} if workflow_id is None else {"workflow_id": workflow_id}
        claim = {"owner": owner or self.owner_id, "lease_ms": lease_ms, "lock_ms": lock_ms}
        terms = {**claim, "while_alive": int(while_alive), **where}
        claimed: list[TaskDefinition] = []
        if task_names and limit > 0:
            claimed = self._claim(terms, limit=limit, names=task_names, any_event=0)
        if any_event and len(claimed) < limit:
            rest = limit - len(claimed)
            claimed += self._claim(terms, limit=rest, names=[], any_event=1)
        return claimed

    _asked = -1e9  # when a claim was last asked for, and answered

    def _claim(self, terms: Mapping[str, object], **choice: object) -> list[TaskDefinition]:
        if "task_list" in terms and self._has_none(terms["task_list"]):
            return []
        query = Q.claim_tasks if "task_list" in terms else Q.claim_run_tasks
        rows = self.database.atomic(query, durable=False, updated=wall_ms(), **terms, **choice)
        self._asked = time.monotonic()
        if len(rows) > 1:
            rows = sorted(rows, key=lambda row: (-row["priority"], row["seq"]))
        claimed = [task_from(row) for row in rows]
        rates = [task.concurrency_key for task in claimed if task.per_minute]
        if rates:  # what is lost in between, a sweep makes good
            self.notifying(lambda tx, notifications: promote(tx, rates, notifications))
        return claimed

    def _has_none(self, task_list: object) -> bool:
        """Every commit wakes everybody on an SQLite file: whoever finds nothing should not have asked to write.

        Not so after a quiet while: then nobody is in anybody's way, and somebody may be waiting for an answer.
        """
        if self.database.dialect != "sqlite" or time.monotonic() - self._asked > _QUIET_SECONDS:
            return False
        if self.database.select(Q.any_pending, task_list=task_list):
            return False
        self._asked = time.monotonic()  # among many commits it looks again and again, and never asks
        return True

    def next_due(self, task_list: str | None = None, workflow_id: str | None = None) -> int | None:
        rows = self.database.select(Q.next_due, task_list=task_list, workflow_id=workflow_id)
        due: int | None = rows[0]["due"]
        return due

    def get_held_back(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        return [task_from(row) for row in self.database.select(Q.get_held_back, workflow_id=workflow_id)]

    def renew(
        self,
        owner: str,
        lease_ms: int,
        lock_ms: int = 0,
        *,
        tasks: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
    ) -> list[tuple[str, int]]:
        if runs is None or runs:
            those = {"every": int(runs is None), "ids": list(runs or ())}
            self.database.atomic(
                Q.renew_runs, durable=False, owner=owner, lease_ms=self.run_lease_ms, **those
            )
        if tasks is not None and not tasks:
            return []
        those = {"every": int(tasks is None), "ids": list(tasks or ())}
        rows = self.database.atomic(
            Q.renew_tasks, durable=False, owner=owner, lease_ms=lease_ms, lock_ms=lock_ms or lease_ms, **those
        )
        return [(row["uuid"], row["epoch"]) for row in rows]

    def held_tasks(self, owner: str) -> list[tuple[str, int]]:
        return [(row["uuid"], row["epoch"]) for row in self.database.select(Q.held_tasks, owner=owner)]

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        claim = {"uuid": task.uuid, "owner": task.owner, "epoch": task.epoch}
        return bool(self.database.execute(Q.renew_task, **claim, lease_ms=lease_ms))

    def release_tasks(self, owner: str, *, died: bool) -> int:
        process = self.database.presence.process(owner)
        return self.notifying(partial(self._release_tasks, owner=owner, died=died, process=process))

    def _release_tasks(
        self,
        tx: Transaction,
        notifications: Notifications,
        *,
        owner: str,
        died: bool,
        process: Process | None,
    ) -> int:
        now = wall_ms()
        outcome = AttemptOutcome.DIED if died else AttemptOutcome.RELEASED
        lost = [task_from(row) for row in tx.all(Q.tasks_of_owner, owner=owner)]
        rows = tx.all(
            Q.release_tasks, owner=owner, deaths=int(died), max_deliveries=self.max_deliveries, updated=now
        )
        write_attempts(tx, notifications, [_lost(task, outcome, now, process) for task in lost])
        promote(tx, (task.concurrency_key for task in lost if task.per_minute), notifications)
        return _notify_for(tx, notifications, rows)

    def reclaim(self, *, expired: bool = True) -> int:
        owners, stale, keys = self.database.read(_standing)
        lives = {owner: self.database.presence.proof(owner) for owner in owners}
        freed = 0
        for owner, life in lives.items():
            if life is Life.DEAD:
                process = self.database.presence.process(owner)
                freed += self.notifying(partial(self._bury, owner=owner, process=process))
        if stale["expired"] and expired:
            alive = [owner for owner, life in lives.items() if life is Life.ALIVE]
            processes = {owner: self.database.presence.process(owner) for owner in owners}
            freed += self.notifying(partial(self._release_expired, alive=alive, processes=processes))
        if stale["runs"]:
            freed += self.notifying(_release_expired_runs)
        if stale["timed"]:
            freed += self.notifying(_time_out)
        if stale["timed_elsewhere"]:
            freed += self.notifying(_time_out_elsewhere)
        if freed:  # what was taken away may have left room
            keys = waiting_keys(self.database.select)
        if keys:
            self.notifying(lambda tx, notifications: promote(tx, keys, notifications))
        return freed

    def _bury(
        self, tx: Transaction, notifications: Notifications, *, owner: str, process: Process | None
    ) -> int:
        """Everything that a dead process held."""
        tasks = self._release_tasks(tx, notifications, owner=owner, died=True, process=process)
        runs = tx.run(Q.release_runs, owner=owner)
        if runs:
            notifications.add(tx, RUNS_TOPIC)
        tx.run(Q.release_locks, owner=owner)
        return tasks + runs

    def _release_expired(
        self,
        tx: Transaction,
        notifications: Notifications,
        *,
        alive: list[str],
        processes: Mapping[str, Process | None],
    ) -> int:
        now = wall_ms()
        lost = [task_from(row) for row in tx.all(Q.expired_tasks, alive=alive)]
        rows = tx.all(
            Q.release_expired_tasks,
            ids=[task.uuid for task in lost],
            max_deliveries=self.max_deliveries,
            updated=now,
        )
        attempts = [_lost(task, AttemptOutcome.EXPIRED, now, processes.get(task.owner)) for task in lost]
        write_attempts(tx, notifications, attempts)
        return _taken_away(tx, notifications, rows)


def _lost(task: TaskDefinition, outcome: str, now: int, process: Process | None) -> AttemptDefinition:
    task.host, task.pid = process or ("", 0)
    return attempt_of(task, outcome, ended=now)


def _time_out(tx: Transaction, notifications: Notifications) -> int:
    now = wall_ms()
    late = [task_from(row) for row in tx.all(Q.timed_out_tasks)]
    rows = tx.all(Q.time_out_tasks, ids=[task.uuid for task in late], updated=now)
    attempts = [
        attempt_of(task, AttemptOutcome.FAILED, ended=now, error=timeout_text(task), error_type=TIMEOUT_ERROR)
        for task in late
    ]
    write_attempts(tx, notifications, attempts)
    return _taken_away(tx, notifications, rows)


def _time_out_elsewhere(tx: Transaction, notifications: Notifications) -> int:
    return _taken_away(tx, notifications, tx.all(Q.time_out_elsewhere, updated=wall_ms()))


def _taken_away(tx: Transaction, notifications: Notifications, rows: list[Row]) -> int:
    """Wake who may claim these tasks, and tell who had them."""
    if rows:
        notifications.add(tx, CANCEL_TOPIC)
    return _notify_for(tx, notifications, rows)


def _release_expired_runs(tx: Transaction, notifications: Notifications) -> int:
    freed = tx.run(Q.release_expired_runs)
    if freed:
        notifications.add(tx, RUNS_TOPIC)
    return freed


def _standing(tx: Transaction) -> tuple[list[str], Row, list[str]]:
    """Who holds anything, whether anything is over its time, and which keys are waited for: reading is cheap."""
    stale = tx.one(Q.stale)
    assert stale is not None  # it counts
    owners = [row["owner"] for row in tx.all(Q.owners) if row["owner"]]
    return owners, stale, waiting_keys(tx.all)


def _notify_for(tx: Transaction, notifications: Notifications, rows: list[Row]) -> int:
    for task_list in {row["task_list_name"] for row in rows}:
        notifications.add(tx, tasks_topic(task_list))
    return len(rows)
