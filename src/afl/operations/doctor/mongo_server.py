"""Checks of a MongoDB server."""

from __future__ import annotations

from typing import Any

from afl.operations.doctor.store_checks import Finding, error, fine, note, warning


def server(store: Any) -> list[Finding]:
    """What a MongoDB store's server says of itself."""
    facts = store.server_facts()
    text = f"MongoDB {facts.version}, a replica set of {facts.members}"
    found: list[Finding] = []
    if facts.is_persistent is False:
        found += error(
            "server",
            f"{text}; its storage engine keeps everything in memory",
            "Use the storage engine wiredTiger.",
        )
    if facts.is_journaled is False:
        found += warning(
            "settings",
            "writeConcernMajorityJournalDefault is false: what a majority acknowledged may be lost when it loses power",
            "Set it to true with rs.reconfig().",
        )
    if facts.members == 1:
        found += note("server", f"{text}: if it is down, everything waits", "Add two more members.")
    return found or fine("server", text)
