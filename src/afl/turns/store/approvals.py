"""Tool calls that a person must approve, in the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries

Q = queries("afl.turns.store", "sql/approvals")
_LAST = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class ToolApproval:
    """A call that somebody is asked about. `status`: open, approved, rejected, expired or canceled.

    Times are milliseconds of the store's clock; `answer` has the arguments that were approved.
    """

    approval_id: str
    project_id: str
    agent_id: str
    agent_turn_id: str
    step_id: str
    tool_call_id: str
    tool_name: str
    description: str
    parameters: Mapping[str, Any]
    arguments: Mapping[str, Any]
    group_name: str
    deadline: int | None = None
    status: str = "open"
    answered_by: str = ""
    answered_at: int | None = None
    feedback: str = ""
    answer: Mapping[str, Any] | None = None
    created_at: int = 0

    @classmethod
    def of(cls, row: Row) -> ToolApproval:
        values = {name: row[name] for name in cls.__slots__}
        values |= {name: decode(row[name]) for name in ("parameters", "arguments")}
        values["answer"] = None if row["answer"] is None else decode(row["answer"])
        values["status"] = _status(row)
        return cls(**values)


def _status(row: Row) -> str:
    if row["status"] != "open" or row["awaited"]:
        return str(row["status"])
    return "expired" if row["timed_out"] else "canceled"


def ask(tx: Transaction, approval: ToolApproval, deadline_ms: int | None) -> None:
    """Store a question; in the transaction that writes the wait for it."""
    tx.run(
        Q.ask,
        approval=approval.approval_id,
        project=approval.project_id,
        agent=approval.agent_id,
        turn=approval.agent_turn_id,
        step=approval.step_id,
        call=approval.tool_call_id,
        tool=approval.tool_name,
        description=approval.description,
        parameters=encode(dict(approval.parameters), what=f"parameters of {approval.tool_name}"),
        arguments=encode(dict(approval.arguments), what=f"arguments of {approval.tool_name}"),
        group=approval.group_name,
        deadline_ms=deadline_ms,
    )


def open_approvals(
    tx: Transaction, *, group: str = "", after: str = "", limit: int = 50
) -> list[ToolApproval]:
    """What waits for an answer, the oldest first."""
    return [ToolApproval.of(row) for row in tx.all(Q.open_approvals, group=group, after=after, limit=limit)]


@dataclass(frozen=True, slots=True)
class OpenCount:
    """How many questions a group has not answered, and how old the first of them is."""

    group: str
    count: int
    oldest_ms: int


def count_open(tx: Transaction) -> list[OpenCount]:
    """What waits for an answer, by group."""
    return [OpenCount(row["group_name"], row["found"], row["age"]) for row in tx.all(Q.count_open)]


def closed_approvals(tx: Transaction, *, group: str = "", limit: int = 50) -> list[ToolApproval]:
    """What was answered, expired or canceled; the newest questions first."""
    return [ToolApproval.of(row) for row in tx.all(Q.closed_approvals, group=group, limit=limit)]


def approvals_named(tx: Transaction, name: str, limit: int = 2) -> list[ToolApproval]:
    """Those whose id begins with a text; if one has it as its id, that one alone."""
    if not name:
        return []
    rows = tx.all(Q.approvals_named, name=name, beyond=name + _LAST, limit=limit)
    found = [ToolApproval.of(row) for row in rows]
    return [each for each in found if each.approval_id == name] or found


def approvals_of_turn(tx: Transaction, project_id: str, turn_id: str) -> list[ToolApproval]:
    """All that people were asked about in a turn, in order."""
    rows = tx.all(Q.approvals_of_turn, project=project_id, turn=turn_id)
    return [ToolApproval.of(row) for row in rows]


def unawaited(tx: Transaction, limit: int = 100) -> list[str]:
    """Ids of open questions whose turns no longer wait for them."""
    return [row["approval_id"] for row in tx.all(Q.unawaited, limit=limit)]


def close_unawaited(tx: Transaction, approval_id: str) -> None:
    """Write down what became of a question that no turn waits for any more."""
    for each in approvals_named(tx, approval_id):
        if each.status in ("expired", "canceled"):
            tx.run(Q.close, approval=approval_id, status=each.status)
