"""Checks of the Redis server of messages, registry and circuit breakers."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.exceptions import RedisError

from afl.coordination.connections import open_client
from afl.kernel.clock import wall_ms
from afl.kernel.setting_kinds import mask_url
from afl.operations.doctor.store_checks import Finding, error, fine, warning

_SKEW_MS = 2_000
_CHECK = "redis"
Info = dict[str, Any]


def check_redis(url: str) -> list[Finding]:
    """All of it; StoreUnavailable and its like if nobody answers."""
    try:
        info = asyncio.run(_ask(url))
    except (RedisError, OSError) as problem:
        return error(
            _CHECK,
            f"Redis at {mask_url(url)} does not answer: {problem}",
            "Start it (`afl up --redis`), or correct AFL_REDIS.",
        )
    return [each for check in CHECKS for each in check(info)]


async def _ask(url: str) -> Info:
    redis = open_client(url)
    try:
        info: Info = {str(name): value for name, value in (await redis.info("everything")).items()}
        seconds, micros = await redis.time()
        info["skew_ms"] = seconds * 1000 + micros // 1000 - wall_ms()
        info["save"] = await _snapshots(redis)
        return info
    finally:
        await redis.aclose()


async def _snapshots(redis: Any) -> str | None:
    """When snapshots are written; None: this user may not ask."""
    try:
        found = {str(name): str(value) for name, value in (await redis.config_get("save")).items()}
    except RedisError:
        return None
    return next((value for name, value in found.items() if "save" in name), "").strip("b'")


def version(info: Info) -> list[Finding]:
    name = "Valkey" if info.get("valkey_version") else "Redis"
    text = f"{name} {info.get('valkey_version') or info.get('redis_version')}"
    if info.get("role") not in ("master", None):
        return error(_CHECK, f"{text} is a replica and takes no writes", "Name the primary in AFL_REDIS.")
    return fine(_CHECK, text)


def eviction(info: Info) -> list[Finding]:
    """A server that makes room by itself throws messages away."""
    policy = info.get("maxmemory_policy", "noeviction")
    if policy != "noeviction":
        return error(
            _CHECK,
            f"maxmemory-policy is {policy}: under memory pressure the server silently discards messages",
            "CONFIG SET maxmemory-policy noeviction, and the same in its configuration file.",
        )
    return fine(_CHECK, "maxmemory-policy is noeviction")


def persistence(info: Info) -> list[Finding]:
    """Whether messages survive a restart."""
    if not info.get("aof_enabled") and info["save"] == "":
        return error(
            _CHECK,
            "neither the append-only file nor snapshots are on: a restart loses all messages",
            "CONFIG SET appendonly yes, and the same in its configuration file.",
        )
    if not info.get("aof_enabled"):
        return warning(
            _CHECK,
            "the append-only file is off: a restart loses the messages since the last snapshot",
            "CONFIG SET appendonly yes, and the same in its configuration file.",
        )
    if "err" in (info.get("aof_last_write_status"), info.get("rdb_last_bgsave_status")):
        return error(_CHECK, "its last write to the disk failed", "Look at its log and its disk.")
    return fine(_CHECK, "the append-only file is on")


def clock(info: Info) -> list[Finding]:
    """Reservations and leases of messages go by the server's clock."""
    skew = info["skew_ms"]
    if abs(skew) > _SKEW_MS:
        return warning(
            _CHECK,
            f"its clock is {abs(skew) / 1000:,.1f} s {'ahead of' if skew > 0 else 'behind'} this machine's",
            "Have both set by NTP.",
        )
    return fine(_CHECK, f"its clock and this machine's differ by {abs(skew):,} ms")


CHECKS = (version, eviction, persistence, clock)
