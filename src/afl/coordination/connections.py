"""Connections to a Redis server: a client from its URL, and a pooled connection for one exchange."""

from __future__ import annotations

import asyncio

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import MaxConnectionsError

from afl.kernel.backoff import Backoff
from afl.kernel.errors import SettingError
from afl.kernel.setting_kinds import mask_url

CONNECT_TIMEOUT_S = 5.0


def open_client(url: str) -> Redis:
    """A client that connects when it is first used; close it with `aclose`."""
    try:
        client = Redis.from_url(url, socket_connect_timeout=CONNECT_TIMEOUT_S)
        client.connection_pool.make_connection()  # type: ignore[no-untyped-call]  # meets unknown options
    except ValueError as error:
        raise SettingError(f"the address of the Redis server is {mask_url(url)!r}: {error}") from error
    except TypeError as error:
        option = str(error).rpartition(" ")[2]
        raise SettingError(
            f"the address of the Redis server is {mask_url(url)!r}; its client knows no option {option}"
        ) from error
    return client


WAIT_S = 20.0
_LOOKS = Backoff(0.001, 2.0, 0.05)


async def borrow(redis: Redis) -> AbstractConnection:
    """A connection of the pool, to be released to it. When all are in use, it waits for one.

    The pool of the driver raises at its limit and has no notification, so it is polled.
    """
    loop = asyncio.get_running_loop()
    ends, looks = loop.time() + WAIT_S, 0
    while True:
        try:
            connection: AbstractConnection = await redis.connection_pool.get_connection()  # type: ignore[no-untyped-call]
            break
        except MaxConnectionsError as error:
            if loop.time() >= ends:
                raise RedisConnectionError(
                    f"all {redis.connection_pool.max_connections} connections of the client were in use for "
                    f"{WAIT_S:g} s; make it with a larger max_connections"
                ) from error
        looks += 1
        await asyncio.sleep(_LOOKS.delay(looks))
    try:
        await _revive(connection)
    except BaseException:
        await redis.connection_pool.release(connection)
        raise
    return connection


async def _revive(connection: AbstractConnection) -> None:
    """A pooled connection that the server has closed has an EOF to read; nothing was sent on it yet."""
    if await connection.can_read():
        await connection.disconnect()
        await connection.connect()  # type: ignore[no-untyped-call]
