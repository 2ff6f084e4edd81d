"""A Redis client that counts round trips."""

from __future__ import annotations

from typing import Any

from redis.asyncio import Connection, ConnectionPool, Redis


class CountingConnection(Connection):
    """Counts what is sent; handshakes are over before a test begins to count."""

    sent = 0

    async def send_packed_command(self, *args: Any, **options: Any) -> None:
        type(self).sent += 1
        await super().send_packed_command(*args, **options)


def counting_client(url: str) -> tuple[Redis, type[CountingConnection]]:
    """A client, and the class whose `sent` counts for it alone."""
    kind = type("CountedConnection", (CountingConnection,), {"sent": 0})
    return Redis.from_pool(ConnectionPool.from_url(url, connection_class=kind)), kind
