"""Servers, named locks and run logs in SQL."""

from __future__ import annotations

from afl.kernel import codec
from afl.runtime.entities import LockDefinition, LockMetaData, LogDefinition, ServerDefinition
from afl.runtime.sql_store.rows import server_from
from afl.runtime.sql_store.tables import Q, Tables


class ServerTables(Tables):
    """The ServerStore protocol."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        rows = self.database.select(Q.get_server, uuid=uuid)
        return server_from(rows[0]) if rows else None

    def save_server(self, server: ServerDefinition) -> None:
        record = codec.encode(server, what=f"server {server.uuid}")
        self.database.write(
            lambda tx: tx.run(
                Q.save_server,
                uuid=server.uuid,
                state=server.state,
                start_time=server.start_time,
                ping_time=server.ping_time,
                record=record,
            )
        )

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        return bool(
            self.database.write(lambda tx: tx.run(Q.update_server_ping, uuid=uuid, ping_time=ping_time))
        )

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
        return bool(
            self.database.write(
                lambda tx: tx.run(Q.acquire_lock, key=key, duration_ms=duration_ms, meta=given, owner=owner)
            )
        )

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        return bool(self.database.write(lambda tx: tx.run(Q.release_lock, key=key, owner=owner)))

    def check_lock(self, key: str) -> LockDefinition | None:
        rows = self.database.select(Q.check_lock, key=key)
        if not rows:
            return None
        row = rows[0]
        meta = codec.decode_as(row["meta"], LockMetaData) if row["meta"] else None
        return LockDefinition(key, row["acquired_at"], row["expires_at"], meta, row["owner"])

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        return bool(
            self.database.write(
                lambda tx: tx.run(Q.extend_lock, key=key, duration_ms=duration_ms, owner=owner)
            )
        )


class LogTables(Tables):
    """The LogStore protocol."""

    def save_log(self, log: LogDefinition) -> None:
        row = log_row(log)
        self.database.write(lambda tx: tx.many(Q.insert_log, [row]))

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        rows = self.database.select(Q.get_logs_by_runner, runner_id=runner_id)
        return [codec.decode_as(row["record"], LogDefinition) for row in rows]


def log_row(log: LogDefinition) -> tuple[str, str, int, int, str]:
    """All columns of a log entry: LOG_COLUMNS."""
    return (log.uuid, log.runner_id, log.order, log.time, codec.encode(log, what="a log entry"))
