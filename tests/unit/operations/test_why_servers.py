"""Why a server does not work."""

from __future__ import annotations

from operated_store import HOUR, begin, serve
from support.lives import Lives

from afl.operations.reason.reasons import Outlook
from afl.operations.reason.why import why
from afl.runtime.memory_store import MemoryStore


def test_working_by_the_beginning_of_its_id(store: MemoryStore) -> None:
    server = serve(store, "t.Double")
    reason = why(store, server.uuid[:8])
    assert (reason.code, reason.kind, reason.id) == ("server-working", "server", server.uuid)
    assert (
        reason.sentence == "afl-agent on host-7 is alive, works on 0 of 5 tasks and claims from list default."
    )


def test_full(store: MemoryStore) -> None:
    begin(store)
    server = serve(store, "t.Double", capacity=1)
    assert store.claim_task(["t.Double"]) is not None
    assert why(store, server.uuid).code == "server-full"


def test_starting(store: MemoryStore) -> None:
    assert why(store, serve(store, state="startup").uuid).code == "server-starting"


def test_stopped(store: MemoryStore) -> None:
    reason = why(store, serve(store, state="shutdown").uuid)
    assert (reason.code, reason.outlook) == ("server-stopped", Outlook.OVER)


def test_stopping(store: MemoryStore) -> None:
    begin(store)
    server = serve(store, "t.Double", state="shutdown")
    assert store.claim_task(["t.Double"]) is not None
    reason = why(store, server.uuid)
    assert (reason.code, reason.outlook) == ("server-stopping", Outlook.MOVES)
    assert (
        reason.sentence == "afl-agent on host-7 was shut down and finishes 1 of 5 tasks; it claims no more."
    )


def test_failed(store: MemoryStore) -> None:
    server = serve(store, state="error", error={"message": "no port is free"})
    reason = why(store, server.uuid)
    assert (reason.code, reason.outlook) == ("server-failed", Outlook.STANDS)
    assert reason.sentence.endswith(": no port is free")


def test_dead(lives: Lives) -> None:
    server = serve(lives.next(), silent_ms=3 * HOUR)
    reason = why(lives.next(), server.uuid)
    assert (reason.code, reason.sentence) == (
        "server-dead",
        "the process of afl-agent on host-7 died; its last sign of life was 3 h ago.",
    )


def test_silent(unseen: Lives) -> None:
    server = serve(unseen.next(), silent_ms=60_000)
    reason = why(unseen.next(), server.uuid)
    assert reason.code == "server-silent"
    assert "has said nothing for 1 min" in reason.sentence


def test_hanging(store: MemoryStore) -> None:
    reason = why(store, serve(store, silent_ms=60_000).uuid)
    assert reason.code == "server-hanging"
    assert reason.sentence.startswith(
        "the process of afl-agent on host-7 is alive, but has not pinged for 1 min"
    )
