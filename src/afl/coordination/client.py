"""A client of a Redis server, from its address."""

from __future__ import annotations

from redis.asyncio import Redis

from afl.kernel.errors import SettingError
from afl.kernel.setting_kinds import mask_url

CONNECT_TIMEOUT_S = 5.0


def open_client(url: str) -> Redis:
    """A client that connects when it is first used; close it with `aclose`."""
    try:
        return Redis.from_url(url, socket_connect_timeout=CONNECT_TIMEOUT_S)
    except ValueError as error:
        raise SettingError(f"the address of the Redis server is {mask_url(url)!r}: {error}") from error
