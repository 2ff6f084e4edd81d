"""Signals in SQL."""

from __future__ import annotations

from functools import partial
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row, Transaction
from afl.runtime.entities import RunnerState, SignalDefinition, TaskDefinition
from afl.runtime.persistence.signals import MOST_UNRECEIVED, SignalStored
from afl.runtime.stores.sql_store.tables import Q, Tables
from afl.runtime.stores.sql_store.task_rows import task_from
from afl.runtime.types import WorkflowId

_GOES_ON = (RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED)


class SignalTables(Tables):
    """The SignalStore protocol."""

    def add_signal(self, signal: SignalDefinition) -> SignalStored:
        value = codec.encode(signal.value, what=f"the value of signal {signal.name}")
        row = {"id": signal.id, "name": signal.name, "value": value, "created": signal.created}
        return self.database.write(partial(_add, row=row, run=signal.workflow_id))

    def get_signal(self, workflow_id: WorkflowId, id: str) -> SignalDefinition | None:
        rows = self.database.select(Q.get_signal, workflow_id=workflow_id, id=id)
        return _signal_from(rows[0]) if rows else None

    def get_signals(
        self, workflow_id: WorkflowId, name: str = "", *, after: int = 0, limit: int = 100
    ) -> list[SignalDefinition]:
        asked: dict[str, Any] = {"workflow_id": workflow_id, "after": after, "limit": limit}
        rows = (
            self.database.select(Q.get_signals_named, name=name, **asked)
            if name
            else self.database.select(Q.get_signals, **asked)
        )
        return [_signal_from(row) for row in rows]

    def get_signal_tasks(self, workflow_id: WorkflowId, name: str, limit: int = 1000) -> list[TaskDefinition]:
        rows = self.database.select(
            Q.get_signal_tasks, workflow_id=workflow_id, via=f"signal:{name}", limit=limit
        )
        return [task_from(row) for row in rows]

    def get_receivable(
        self, workflow_id: WorkflowId | None = None, limit: int = 100
    ) -> list[tuple[WorkflowId, str]]:
        rows = (
            self.database.select(Q.get_receivable, limit=limit)
            if workflow_id is None
            else self.database.select(Q.get_receivable_of, workflow_id=workflow_id, limit=limit)
        )
        return [(row["workflow_id"], row["name"]) for row in rows]


def _add(tx: Transaction, *, row: dict[str, Any], run: str) -> SignalStored:
    """The row of the run is locked first: it does not end meanwhile, and signals become visible in their order."""
    found = tx.one(Q.run_state, workflow_id=run)
    if tx.one(Q.get_signal, workflow_id=run, id=row["id"]):
        return SignalStored.DUPLICATE
    if found is None or found["state"] not in _GOES_ON:
        return SignalStored.OVER
    unreceived = tx.one(Q.count_unreceived, workflow_id=run, name=row["name"], most=MOST_UNRECEIVED)
    assert unreceived is not None  # it counts
    if unreceived["found"] >= MOST_UNRECEIVED:
        return SignalStored.FULL
    tx.run(Q.insert_signal, workflow_id=run, **row)
    return SignalStored.STORED


def _signal_from(row: Row) -> SignalDefinition:
    fields = ("workflow_id", "id", "name", "created", "seq", "task_id")
    signal = SignalDefinition(**{name: row[name] for name in fields})
    try:
        signal.value = codec.decode_map(row["value"])
    except ValueError as error:
        signal.unreadable = f"the value of signal {signal.id} cannot be read: {error}"
    return signal
