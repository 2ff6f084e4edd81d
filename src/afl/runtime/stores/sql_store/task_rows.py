"""Tasks and their attempts to rows and back, and the attempts' table."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, cast

from afl.kernel import codec
from afl.kernel.database import Row, Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import (
    KEPT_ATTEMPTS,
    AttemptDefinition,
    TaskDefinition,
    TaskHold,
    ended_attempts,
    failure_logs,
    in_order,
)
from afl.runtime.stores.sql_store.servers import append_logs, log_row
from afl.runtime.stores.sql_store.tables import Q, Tables

_TASK_JSON = ("error", "data", "result", "retry", "bridge")
_POLICY_COLUMNS = (
    "timeout_ms",
    "concurrency_key",
    "concurrency_limit",
    "hold",
    "not_before",
    "deadline",
    "failures",
    "lock_until",
    "last_owner",
    "via",
    "patience_ms",
    "expiries",
)
_NEW_POLICY = ("uuid", "timeout_ms", "retry", "concurrency_key", "concurrency_limit", "hold", "deadline")
_NOT_OF_A_TASK = ("seq", "short_name", "while_alive")
_NOT_INSERTED = ("host", "pid", "attempt")
_TASK_COLUMNS = [
    field.name
    for field in fields(TaskDefinition)
    if field.name not in (*_TASK_JSON, *_POLICY_COLUMNS, *_NOT_INSERTED)
]

_task_values = attrgetter(*_TASK_COLUMNS)
_policy_values = attrgetter(*_POLICY_COLUMNS)
_NO_POLICY = _policy_values(TaskDefinition("", "", "", "", "", ""))


def task_params(task: TaskDefinition) -> dict[str, Any]:
    """What every task has, as named parameters."""
    params = dict(zip(_TASK_COLUMNS, _task_values(task), strict=True))
    params["short_name"] = task.name.rpartition(".")[2]
    params["error"] = None if task.error is None else codec.encode(task.error)
    params["result"] = None if task.result is None else codec.encode(task.result)
    params["data"] = (
        None if task.data is None else codec.encode(task.data, what=f"the data of task {task.uuid}")
    )
    return params


def closing_params(task: TaskDefinition) -> dict[str, Any]:
    """What the end of a task changes, and what the fence asks for."""
    return {
        "uuid": task.uuid,
        "state": task.state,
        "error": None if task.error is None else codec.encode(task.error),
        "result": None if task.result is None else codec.encode(task.result),
        "updated": task.updated,
        "owner": task.owner,
        "epoch": task.epoch,
        "started": task.started,
        "host": task.host,
        "pid": task.pid,
    }


def policy_params(task: TaskDefinition) -> dict[str, Any]:
    """What only some tasks have, as named parameters."""
    params = dict(zip(_POLICY_COLUMNS, _policy_values(task), strict=True))
    params["retry"] = None if task.retry is None else codec.encode(task.retry)
    params["bridge"] = bridge_text(task)
    params["uuid"] = task.uuid
    return params


def is_plain(task: TaskDefinition) -> bool:
    """Whether a task has nothing that only some tasks have."""
    return task.retry is None and task.bridge is None and bool(_policy_values(task) == _NO_POLICY)


class TaskRows:
    """The rows of the tasks that commits create and close, and of the attempts that they end."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        self.closed: list[dict[str, Any]] = []
        self.policies: list[dict[str, Any]] = []
        self.elsewhere: list[dict[str, Any]] = []
        self.attempts: list[tuple[object, ...]] = []

    def add(
        self, created: Sequence[TaskDefinition], closed: Sequence[TaskDefinition]
    ) -> list[AttemptDefinition]:
        """Add those of one commit; the attempts that it ends."""
        for task in created:
            self.created.append(task_params(task))
            if policy := new_policy(task):
                self.policies.append(policy)
            if elsewhere := new_elsewhere(task):
                self.elsewhere.append(elsewhere)
        self.closed += map(closing_params, closed)
        attempts = ended_attempts(closed)
        self.attempts += map(attempt_row, attempts)
        return attempts


def new_policy(task: TaskDefinition) -> dict[str, Any] | None:
    """The policies of a new task, if it has any; one with a concurrency key waits until it is promoted."""
    if not _has_policy(task):
        return None
    params = policy_params(task)
    params["hold"] = TaskHold.CONCURRENCY if task.concurrency_key else _timer(task)
    return {name: params[name] for name in _NEW_POLICY}


def _timer(task: TaskDefinition) -> str:
    return TaskHold.TIMER if task.hold == TaskHold.TIMER else ""


def _has_policy(task: TaskDefinition) -> bool:
    return bool(task.timeout_ms or task.retry is not None or task.concurrency_key or _timer(task))


def new_elsewhere(task: TaskDefinition) -> dict[str, Any] | None:
    """Where a new task is done, if not by a worker; its times begin when the store has it."""
    if not task.via:
        return None
    return {
        "uuid": task.uuid,
        "via": task.via,
        "bridge": bridge_text(task),
        "patience_ms": task.patience_ms,
    }


def bridge_text(task: TaskDefinition) -> str | None:
    """What the other side is to know, as JSON."""
    if task.bridge is None:
        return None
    return codec.encode(task.bridge, what=f"the bridge of task {task.uuid}")


def task_from(row: Row) -> TaskDefinition:
    """The task of a row, which becomes part of it."""
    values: dict[str, Any] = (
        dict(zip(row.keys(), row, strict=True)) if isinstance(row, sqlite3.Row) else cast(dict[str, Any], row)
    )
    for name in _NOT_OF_A_TASK:
        del values[name]
    unreadable = ""
    for name in _TASK_JSON:
        if values[name] is not None:
            try:
                values[name] = codec.decode_map(values[name])
            except ValueError as error:
                values[name], unreadable = None, f"{name} of task {values['uuid']} cannot be read: {error}"
    task = object.__new__(TaskDefinition)
    task.__dict__ = values  # a third of the time that keyword arguments take; a row has every column
    if unreadable:
        task.unreadable = unreadable
    return task


ATTEMPT_COLUMNS = [field.name for field in fields(AttemptDefinition)]

_attempt_values = attrgetter(*ATTEMPT_COLUMNS)


class AttemptTables(Tables):
    """The AttemptStore protocol."""

    def get_failed_attempts(
        self, workflow_id: str, task_id: str = "", limit: int = 1000
    ) -> list[AttemptDefinition]:
        rows = self.database.select(
            Q.get_failed_attempts, workflow_id=workflow_id, task_id=task_id, limit=limit
        )
        return in_order(map(_attempt_from, rows))


def attempt_row(attempt: AttemptDefinition) -> tuple[object, ...]:
    """All columns of an attempt: ATTEMPT_COLUMNS. A text of PostgreSQL holds no NUL."""
    values: tuple[object, ...] = _attempt_values(attempt)
    return tuple(
        value.replace("\x00", "\\x00") if isinstance(value, str) and "\x00" in value else value
        for value in values
    )


def write_attempts(
    tx: Transaction, notifications: Notifications, attempts: Sequence[AttemptDefinition]
) -> None:
    """Store attempts that ended, and what the logs of their runs say of them; of many keep the first and the newest."""
    if not attempts:
        return
    tx.many(Q.insert_attempt, [attempt_row(each) for each in attempts])
    for each in attempts:
        if each.number > KEPT_ATTEMPTS + 1:
            tx.run(
                Q.trim_attempts,
                workflow_id=each.workflow_id,
                task_id=each.task_id,
                number=each.number - KEPT_ATTEMPTS,
            )
    append_logs(tx, notifications, [log_row(log) for log in failure_logs(attempts)])


def _attempt_from(row: Row) -> AttemptDefinition:
    return AttemptDefinition(**{name: row[name] for name in ATTEMPT_COLUMNS})
