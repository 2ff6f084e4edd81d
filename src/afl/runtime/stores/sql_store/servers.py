"""Flows, programs, servers, locks and logs in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from afl.kernel import codec
from afl.kernel.database import Row, Transaction
from afl.kernel.notify import Notifications
from afl.runtime.entities import (
    SYSTEM_PREFIX,
    FlowDefinition,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    ServerDefinition,
    WorkflowDefinition,
)
from afl.runtime.persistence.topics import logs_topic
from afl.runtime.stores.masking import masked_log
from afl.runtime.stores.sql_store.tables import Q, Tables


class FlowTables(Tables):
    """The FlowStore protocol."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        if not self.database.select(Q.get_program, hash=program_hash):
            self.database.execute(Q.save_program, hash=program_hash, compiled=compiled)

    def get_program(self, program_hash: str) -> str | None:
        rows = self.database.select(Q.get_program, hash=program_hash)
        return rows[0]["compiled"] if rows else None

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow, uuid=uuid))

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow_by_path, path=path))

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        return _flow(self.database.select(Q.get_flow_by_name, name=name))

    def get_all_flows(self) -> list[FlowDefinition]:
        return [
            codec.decode_as(row["record"], FlowDefinition) for row in self.database.select(Q.get_all_flows)
        ]

    def find_flows(self, *, prefix: str = "", before: str = "", limit: int = 100) -> list[FlowDefinition]:
        rows = self.database.select(Q.find_flows, prefix=prefix, before=before, limit=limit)
        return [codec.decode_as(row["record"], FlowDefinition) for row in rows]

    def count_runs_of_flows(self, uuids: Sequence[str]) -> dict[str, int]:
        rows = self.database.select(Q.count_runs_of_flows, ids=list(uuids)) if uuids else []
        return {row["flow_id"]: int(row["found"]) for row in rows}

    def save_flow(self, flow: FlowDefinition) -> None:
        record = codec.encode(flow, what=f"flow {flow.uuid}")
        name, path = flow.name.name, flow.name.path
        self.database.execute(Q.save_flow, uuid=flow.uuid, name=name, path=path, record=record)

    def delete_flow(self, uuid: str) -> bool:
        return bool(self.database.execute(Q.delete_flow, uuid=uuid))

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        return _workflow(self.database.select(Q.get_workflow, uuid=uuid))

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        return _workflow(self.database.select(Q.get_workflow_by_name, name=name))

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        rows = self.database.select(Q.get_workflows_by_flow, flow_id=flow_id)
        return [codec.decode_as(row["record"], WorkflowDefinition) for row in rows]

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        record = codec.encode(workflow, what=f"workflow {workflow.uuid}")
        self.database.execute(
            Q.save_workflow,
            uuid=workflow.uuid,
            name=workflow.name,
            flow_id=workflow.flow_id,
            date=workflow.date,
            record=record,
        )


def _flow(rows: list[Row]) -> FlowDefinition | None:
    return codec.decode_as(rows[0]["record"], FlowDefinition) if rows else None


def _workflow(rows: list[Row]) -> WorkflowDefinition | None:
    return codec.decode_as(rows[0]["record"], WorkflowDefinition) if rows else None


LOG_COLUMNS = ("uuid", "runner_id", "position", "time", "record")
_LAST_POSITION = 2**63 - 1


class ServerTables(Tables):
    """The ServerStore protocol."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        rows = self.database.select(Q.get_server, uuid=uuid)
        return server_from(rows[0]) if rows else None

    def save_server(self, server: ServerDefinition) -> None:
        record = codec.encode(server, what=f"server {server.uuid}")
        self.database.execute(
            Q.save_server,
            uuid=server.uuid,
            state=server.state,
            start_time=server.start_time,
            ping_time=server.ping_time,
            record=record,
        )

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        return bool(self.database.execute(Q.update_server_ping, uuid=uuid, ping_time=ping_time))

    def get_all_servers(self) -> list[ServerDefinition]:
        return [server_from(row) for row in self.database.select(Q.get_all_servers)]

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return [server_from(row) for row in self.database.select(Q.get_servers_by_state, state=state)]


class LockTables(Tables):
    """The LockStore protocol."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool:
        given = None if meta is None else codec.encode(meta)

        def acquire(tx: Transaction) -> bool:
            item = _work_item(tx, key)
            if item is not None:
                mine = bool(owner) and item["owner"] == owner
                return mine and _set_work_item_lock(tx, key, duration_ms, owner)
            return bool(tx.run(Q.acquire_lock, key=key, duration_ms=duration_ms, meta=given, owner=owner))

        return self.database.write(acquire)

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        def release(tx: Transaction) -> bool:
            if _work_item(tx, key) is not None:
                return _set_work_item_lock(tx, key, 0, owner)
            return bool(tx.run(Q.release_lock, key=key, owner=owner))

        return self.database.write(release)

    def check_lock(self, key: str) -> LockDefinition | None:
        def check(tx: Transaction) -> LockDefinition | None:
            item = _work_item(tx, key)
            if item is not None:
                name = item["name"]
                meta = LockMetaData(topic=name, handler=name, step_name=name, step_id=item["step_id"])
                return LockDefinition(key, item["updated"], item["lock_until"], meta, item["owner"])
            row = tx.one(Q.check_lock, key=key)
            if row is None:
                return None
            given = codec.decode_as(row["meta"], LockMetaData) if row["meta"] else None
            return LockDefinition(key, row["acquired_at"], row["expires_at"], given, row["owner"])

        return self.database.read(check)

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        def extend(tx: Transaction) -> bool:
            if _work_item(tx, key) is not None:
                return _set_work_item_lock(tx, key, duration_ms, owner)
            return bool(tx.run(Q.extend_lock, key=key, duration_ms=duration_ms, owner=owner))

        return self.database.write(extend)


WORK_ITEM = "runner:task:"


def _work_item(tx: Transaction, key: str) -> Row | None:
    """The claimed task whose lock this is: a claim and its lock are one row."""
    if not key.startswith(WORK_ITEM):
        return None
    return tx.one(Q.work_item, uuid=key.removeprefix(WORK_ITEM))


def _set_work_item_lock(tx: Transaction, key: str, duration_ms: int, owner: str) -> bool:
    uuid = key.removeprefix(WORK_ITEM)
    return bool(tx.run(Q.set_work_item_lock, uuid=uuid, duration_ms=duration_ms, owner=owner))


class LogTables(Tables):
    """The LogStore protocol."""

    def save_logs(self, logs: Sequence[LogDefinition]) -> None:
        rows = [log_row(log) for log in logs]
        if rows:
            self.notifying(lambda tx, notifications: append_logs(tx, notifications, rows))

    def get_logs_after(
        self, runner_id: str, position: int, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        rows = self.database.select(Q.get_logs_after, runner_id=runner_id, position=position, limit=limit)
        return [(row["seq"], codec.decode_as(row["record"], LogDefinition)) for row in rows]

    def get_logs_before(
        self, runner_id: str, position: int = 0, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        rows = self.database.select(
            Q.get_logs_before, runner_id=runner_id, position=position or _LAST_POSITION, limit=limit
        )
        return [(row["seq"], codec.decode_as(row["record"], LogDefinition)) for row in rows]

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        rows = self.database.select(Q.get_logs_by_runner, runner_id=runner_id)
        return [codec.decode_as(row["record"], LogDefinition) for row in rows]


def append_logs(
    tx: Transaction, notifications: Notifications, rows: list[tuple[str, str, int, int, str]]
) -> None:
    """Append entries, each behind all that its run has."""
    for runner_id in sorted({row[1] for row in rows}):
        if not runner_id.startswith(
            SYSTEM_PREFIX
        ):  # nobody follows the audit log, and everybody writes to it
            # Whoever follows a log reads on from a number: numbers must become visible in their order.
            tx.one(Q.lock_key, key=f"logs:{runner_id}")
        notifications.add(tx, logs_topic(runner_id))
    tx.many(Q.insert_log, rows)


def server_from(row: Row) -> ServerDefinition:
    """The server of a row; the heartbeat writes the ping time alone."""
    return replace(codec.decode_as(row["record"], ServerDefinition), ping_time=row["ping_time"])


def log_params(log: LogDefinition) -> dict[str, Any]:
    """The same by name."""
    return dict(zip(LOG_COLUMNS, log_row(log), strict=True))


def log_row(log: LogDefinition) -> tuple[str, str, int, int, str]:
    """All columns of a log entry: LOG_COLUMNS."""
    return (log.uuid, log.runner_id, log.order, log.time, codec.encode(masked_log(log), what="a log entry"))
