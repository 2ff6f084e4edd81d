"""Whether the tables of a store are those that this AgentFlow knows."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from afl.kernel import journal, schedule
from afl.kernel.database import Database, Schema
from afl.kernel.database.migration import stored_versions
from afl.operations.doctor.finding import Finding, error, fine, note, warning
from afl.runtime.stores.sql_store import tables, usage
from afl.turns.store.tables import SCHEMAS as TURNS

_EVERYWHERE = (tables.SCHEMA, usage.SCHEMA, schedule.SCHEMA, journal.SCHEMA, *TURNS)
_NEWER = "Update AgentFlow on this machine to the version that wrote the store."
_OLDER = "The next process that works on the store brings it forward. Make a backup, and stop older processes before."


def tables_fit(database: Database) -> list[Finding]:
    """Versions of all parts that are in the store; nothing is brought forward by looking."""
    stored = stored_versions(database)
    if not stored:
        return note("tables", "the store has no tables yet; the first process that works on it makes them")
    wanted = {each.name: each.version for each in _known(stored)}
    found: list[Finding] = []
    for name, version in sorted(stored.items()):
        expected = wanted.get(name, version)
        text = f"the tables of {name} have version {version}, this AgentFlow knows {expected}"
        if version > expected:
            found += error("tables", text, _NEWER)
        elif version < expected:
            found += warning("tables", text, _OLDER)
    return found or fine("tables", f"the tables of {', '.join(sorted(stored))} are up to date")


def _known(stored: Mapping[str, int]) -> list[Schema]:
    found = list(_EVERYWHERE)
    if "presence" in stored:  # on PostgreSQL alone, whose driver its module needs
        found.append(importlib.import_module("afl.kernel.presence.postgres").SCHEMA)
    if "runtime-functions" in stored:
        found.append(importlib.import_module("afl.runtime.postgres_store").FUNCTIONS)
    return found
