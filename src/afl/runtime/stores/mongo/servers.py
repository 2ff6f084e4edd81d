"""Servers in MongoDB."""

from __future__ import annotations

from typing import Any

from afl.runtime.entities import ServerDefinition
from afl.runtime.stores.mongo.collections import Collections
from afl.runtime.stores.mongo.records import record_document, record_from

_OLDEST_START = [("start_time", 1), ("uuid", 1)]
_SERVER_COLUMNS = ("uuid", "state", "start_time", "ping_time")


class ServerCollection(Collections):
    """The ServerStore protocol."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        found = self._one("servers", {"uuid": uuid})
        return record_from(found, ServerDefinition) if found else None

    def save_server(self, server: ServerDefinition) -> None:
        self._save("servers", record_document(server, f"server {server.uuid}", _SERVER_COLUMNS))

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        return self._update("servers", {"uuid": uuid}, {"$set": {"ping_time": ping_time}})

    def get_all_servers(self) -> list[ServerDefinition]:
        return self._servers({})

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        return self._servers({"state": state})

    def _servers(self, query: dict[str, Any]) -> list[ServerDefinition]:
        return [
            record_from(each, ServerDefinition) for each in self._all("servers", query, sort=_OLDEST_START)
        ]
