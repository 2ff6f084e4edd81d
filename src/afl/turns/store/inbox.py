"""The inbox: requests to agents, and results of their tools. Workers of its worker_target claim a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from afl.kernel.codec import encode
from afl.kernel.database import Database, Transaction, queries
from afl.turns.model import InboxRow
from afl.turns.statuses import InboxStatus, MessageType

Q = queries("afl.turns.store", "sql/inbox")
CLAIM_ROWS = 20


def topic(target: str) -> str:
    """The notifier topic of the workers of one target."""
    return f"turns:{target}"


def message_row(
    *,
    project_id: str,
    inbox_id: str,
    agent_id: str,
    worker_target: str,
    channel_id: str,
    message_type: MessageType,
    agent_turn_id: str,
    turn_epoch: int,
    headers: Mapping[str, str],
    payload: Mapping[str, Any],
    status: InboxStatus,
    correlation_id: str | None = None,
) -> dict[str, Any]:
    """The parameters of a message."""
    is_call = message_type in (MessageType.TURN, MessageType.UI_ACTION)
    return {
        "inbox": inbox_id,
        "project": project_id,
        "agent": agent_id,
        "target": worker_target,
        "channel": channel_id,
        "type": str(message_type),
        "mode": "call" if is_call else None,
        "correlation": correlation_id,
        "turn": agent_turn_id,
        "epoch": turn_epoch,
        "headers": encode(dict(headers), what="headers of a message"),
        "payload": encode(dict(payload), what=f"payload of a {message_type}"),
        "status": str(status),
    }


def put(tx: Transaction, row: Mapping[str, Any]) -> bool:
    """Write a message; False when there is one with its id or correlation already."""
    return bool(tx.run(Q.put, **row))


async def is_worth_a_claim(database: Database, targets: Sequence[str]) -> bool:
    """Whether a worker that was woken should claim. On SQLite every commit wakes all of them, and a claim blocks other
    writers, so they look first; elsewhere they are woken for messages, and the look would be one more round trip."""
    if database.dialect != "sqlite":
        return True
    (found,) = await database.fetch(Q.is_due, targets=list(targets))
    return bool(found["due"])


def claim_due(
    tx: Transaction,
    *,
    targets: Sequence[str],
    owner: str,
    limit: int = CLAIM_ROWS,
    project: str | None = None,
    agent: str | None = None,
) -> list[InboxRow]:
    """Claim due messages, oldest first: of one agent, or of all agents of these targets."""
    if project is not None and agent is not None:
        found = tx.all(Q.claim_of_agent, project=project, agent=agent, owner=owner, limit=limit)
    else:
        found = []
        for target in targets:
            if len(found) < limit:
                found += tx.all(Q.claim, target=target, owner=owner, limit=limit - len(found))
    return sorted((InboxRow.of(row) for row in found), key=lambda row: (row.next_retry_at, row.position))


def consume(tx: Transaction, project_id: str, inbox_id: str) -> None:
    """The message is done. One that was closed before stays as it is, here and in `refuse` and `skip`."""
    _close(tx, project_id, inbox_id, InboxStatus.CONSUMED, None)


def refuse(tx: Transaction, project_id: str, inbox_id: str, error: str) -> None:
    """The message cannot be handled."""
    _close(tx, project_id, inbox_id, InboxStatus.ERROR, error)


def skip(tx: Transaction, project_id: str, inbox_id: str, reason: str) -> None:
    """The message is withdrawn."""
    _close(tx, project_id, inbox_id, InboxStatus.SKIPPED, reason)


def defer(tx: Transaction, project_id: str, inbox_id: str, delay_ms: int, reason: str) -> InboxRow | None:
    """Make the message due again later; None when it is done already."""
    row = tx.one(Q.defer, project=project_id, inbox=inbox_id, delay_ms=delay_ms, reason=reason)
    return InboxRow.of(row) if row is not None else None


def release(tx: Transaction, owner: str) -> list[InboxRow]:
    """Release every claim of a worker that stops."""
    return [InboxRow.of(row) for row in tx.all(Q.release, owner=owner)]


def requeue_stale(
    tx: Transaction, *, older_ms: int, dead_owners: Iterable[str] = (), limit: int = 200
) -> list[InboxRow]:
    """Make messages pending again whose claim is too old, or whose claimer is proven dead."""
    rows = tx.all(Q.requeue_stale, older_ms=older_ms, dead=list(dead_owners), limit=limit)
    return [InboxRow.of(row) for row in rows]


def claimers(tx: Transaction) -> list[str]:
    """The workers that have claims: the watchdog checks which of them live."""
    return [row["claimed_by"] for row in tx.all(Q.claimers)]


def read_row(tx: Transaction, project_id: str, inbox_id: str) -> InboxRow | None:
    row = tx.one(Q.read_row, project=project_id, inbox=inbox_id)
    return InboxRow.of(row) if row is not None else None


def turn_row(tx: Transaction, project_id: str, turn_id: str) -> InboxRow | None:
    """The message that began, or will begin, a turn."""
    row = tx.one(Q.turn_row, project=project_id, turn=turn_id)
    return InboxRow.of(row) if row is not None else None


def report_row(tx: Transaction, project_id: str, tool_call_id: str) -> InboxRow | None:
    """The answer to a tool call, if there is one."""
    row = tx.one(Q.report_row, project=project_id, correlation=tool_call_id)
    return InboxRow.of(row) if row is not None else None


def rows_of_agent(tx: Transaction, project_id: str, agent_id: str, limit: int = 50) -> list[InboxRow]:
    """The newest messages of an agent, newest first."""
    rows = tx.all(Q.rows_of_agent, project=project_id, agent=agent_id, limit=limit)
    return [InboxRow.of(row) for row in rows]


def has_open_inbox(tx: Transaction, project_id: str, agent_id: str, excluding: str = "") -> bool:
    """Whether the agent has open messages, queued turns apart."""
    row = tx.one(Q.open_rows, project=project_id, agent=agent_id, excluding=excluding)
    return row is not None and row["open"] > 0


def _close(tx: Transaction, project_id: str, inbox_id: str, status: InboxStatus, error: str | None) -> None:
    tx.queue(Q.close, project=project_id, inbox=inbox_id, status=str(status), error=error)
