"""Checks of a PostgreSQL server: its version, and settings with which it may lose what it acknowledged."""

from __future__ import annotations

from typing import Any

from afl.kernel.database import Database, Row, queries
from afl.operations.doctor.store_checks import Finding, error, fine, note, warning

Q = queries("afl.kernel.database", "sql")
_OLDEST = 130000
_OLDEST_TEXT = "13"
_WRAPAROUND = 1_500_000_000
_FEW_CONNECTIONS = 0.9
_DURABLE = ("on", "remote_apply", "remote_write", "local")


def server_state(database: Database) -> Row:
    """What the server says of itself, once for all checks."""
    return database.select(Q.server_state)[0]


def version(state: Row) -> list[Finding]:
    text = f"PostgreSQL {state['version_text']}, {state['size'] // (1 << 20):,} MiB in this database"
    if state["version"] < _OLDEST:
        return error("server", text, f"Use PostgreSQL {_OLDEST_TEXT} or newer.")
    if state["is_standby"]:
        return error(
            "server", f"{text}; it is a standby and takes no writes", "Name the primary in AFL_STORE."
        )
    return fine("server", text)


def durability(state: Row) -> list[Finding]:
    """Settings that gain speed by losing committed work."""
    harm = {
        "fsync": "a crash of the machine can destroy the whole database",
        "full_page_writes": "a crash of the machine can leave half-written pages",
    }
    found = [
        each
        for name, what in harm.items()
        if state[name] == "off"
        for each in error("settings", f"{name} is off: {what}", _switch_on(name))
    ]
    if state["synchronous_commit"] not in _DURABLE:
        found += error(
            "settings",
            "synchronous_commit is off: a crash of the server loses the latest commits, though they were acknowledged",
            _switch_on("synchronous_commit"),
        )
    return found or fine("settings", "fsync, full_page_writes and synchronous_commit are on")


def upkeep(state: Row) -> list[Finding]:
    """Whether old row versions are cleared away."""
    if state["transaction_age"] > _WRAPAROUND:
        return error(
            "vacuum",
            f"the oldest transaction is {state['transaction_age']:,} behind: at 2 billion the server takes no writes",
            "Run VACUUM FREEZE in this database, and look for sessions that stay in a transaction.",
        )
    if state["autovacuum"] == "off":
        return warning(
            "vacuum", "autovacuum is off: tables grow, and claims become slower", _switch_on("autovacuum")
        )
    return fine("vacuum", "autovacuum is on")


def connections(state: Row) -> list[Finding]:
    """Each process needs up to a dozen."""
    used, most = state["connections"], state["max_connections"]
    text = f"{used} of {most} connections are in use"
    if used > most * _FEW_CONNECTIONS:
        return warning(
            "connections", text, "Raise max_connections; each worker process needs up to twelve of them."
        )
    return fine("connections", text)


def pooler(database: Any) -> list[Finding]:
    """A pooler in between hides whether a process lives, and drops notifications."""
    if database.pooled:
        return note(
            "pooler",
            "the address leads to a pooler: deaths of workers are noticed when their leases end, not at once",
            "Name the server itself in AFL_STORE.",
        )
    return fine("pooler", "the address leads to the server itself")


def _switch_on(name: str) -> str:
    return f"ALTER SYSTEM SET {name} = on, then SELECT pg_reload_conf()."


STATE_CHECKS = (version, durability, upkeep, connections)
