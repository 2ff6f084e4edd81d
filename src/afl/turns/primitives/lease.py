"""lease_agent_turn_with_conn: an idle agent gets a turn. Here, and only here, a turn's first epoch is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from afl.kernel.codec import encode
from afl.kernel.database import Statement, Transaction
from afl.turns.model import Head
from afl.turns.store.edges import Q


@dataclass(frozen=True, slots=True)
class Lease:
    """The columns of the head for the turn."""

    project_id: str
    agent_id: str
    agent_turn_id: str
    channel_id: str
    inbox_id: str
    output_box_id: str
    context_box_id: str | None = None
    profile_box_id: str | None = None
    recursion_depth: int = 0
    parent_step_id: str | None = None
    trace_id: str | None = None
    expecting_correlation_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def statement(self) -> Statement:
        """Gives the head, unless the agent is busy or has none yet."""
        return Q.lease, {
            "project": self.project_id,
            "agent": self.agent_id,
            "turn": self.agent_turn_id,
            "channel": self.channel_id,
            "depth": self.recursion_depth,
            "parent_step": self.parent_step_id,
            "trace": self.trace_id,
            "profile_box": self.profile_box_id,
            "context_box": self.context_box_id,
            "output_box": self.output_box_id,
            "expecting": self.expecting_correlation_id,
            "inbox": self.inbox_id,
            "headers": encode(dict(self.headers), what="headers of a turn"),
        }


def lease_agent_turn_with_conn(conn: Transaction, lease: Lease) -> Head | None:
    """idle -> dispatched with epoch + 1; None when the agent is busy. T2, T2u."""
    found = _lease(conn, lease)
    if found is None and conn.run(Q.ensure_head, project=lease.project_id, agent=lease.agent_id):
        found = _lease(conn, lease)
    return found


def _lease(tx: Transaction, lease: Lease) -> Head | None:
    (rows,) = tx.each(lease.statement)
    return Head.of(rows[0]) if rows else None
