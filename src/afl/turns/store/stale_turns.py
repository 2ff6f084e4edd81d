"""Turns and messages that no worker advances, as the watchdog reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from afl.kernel.codec import decode
from afl.kernel.database import Transaction, queries
from afl.turns.context import TurnContext
from afl.turns.model import Head, TurnRef
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox

Q = queries("afl.turns.store", "sql/stale_turns")


@dataclass(frozen=True, slots=True)
class ExpiredWait:
    """A tool call whose deadline passed, and the turn that waits for it."""

    turn: TurnRef
    tool_call_id: str
    step_id: str
    tool_name: str
    channel_id: str
    recursion_depth: int
    context_headers: Mapping[str, str]

    def is_of(self, head: Head) -> bool:
        """Whether the agent still waits in that turn."""
        same = (head.active_agent_turn_id, head.turn_epoch) == (
            self.turn.agent_turn_id,
            self.turn.expected_epoch,
        )
        return same and head.status is HeadStatus.SUSPENDED

    def context(self, agent_id: str = "sys.watchdog") -> TurnContext:
        """The context of its report: at the depth of the turn, in its trace."""
        return TurnContext(
            project_id=self.turn.project_id,
            channel_id=self.channel_id,
            agent_id=agent_id,
            agent_turn_id=self.turn.agent_turn_id,
            turn_epoch=self.turn.expected_epoch or 0,
            recursion_depth=self.recursion_depth,
            step_id=self.step_id,
            tool_call_id=self.tool_call_id,
            traceparent=new_span(self.context_headers["traceparent"]),
        )


@dataclass(frozen=True, slots=True)
class DueAgent:
    """An agent with messages that no worker claims."""

    project_id: str
    agent_id: str
    channel_id: str
    worker_target: str


def expired_waits(tx: Transaction, limit: int = 100) -> list[ExpiredWait]:
    """Tool calls of suspended turns whose deadline passed without a report."""
    return [
        ExpiredWait(
            TurnRef(row["project_id"], row["agent_id"], row["agent_turn_id"], row["turn_epoch"]),
            row["tool_call_id"],
            row["step_id"],
            row["tool_name"],
            row["active_channel_id"],
            row["active_recursion_depth"],
            decode(row["context_headers"]),
        )
        for row in tx.all(Q.expired_waits, limit=limit)
    ]


def running_of_others(tx: Transaction, owner: str, limit: int = 100) -> list[Head]:
    """Turns that other workers run: the watchdog checks which of those live."""
    return [Head.of(row) for row in tx.all(Q.running_heads, owner=owner, limit=limit)]


def unleased_turns(tx: Transaction, dead: Iterable[str] = (), limit: int = 100) -> list[Head]:
    """Running turns that may be taken over."""
    return [Head.of(row) for row in tx.all(Q.unleased_heads, dead=list(dead), limit=limit)]


def stuck_heads(tx: Transaction, status: HeadStatus, older_ms: int, limit: int = 100) -> list[Head]:
    """Heads that have been dispatched, or suspended, for so long."""
    rows = tx.all(Q.stuck_heads, status=str(status), older_ms=older_ms, limit=limit)
    return [Head.of(row) for row in rows]


def idle_with_queue(tx: Transaction, limit: int = 100) -> list[tuple[str, str]]:
    """(project, agent) of idle agents for whom turns are queued; `dispatch_next` is what they need."""
    return [(row["project_id"], row["agent_id"]) for row in tx.all(Q.idle_with_queue, limit=limit)]


def unclaimed_agents(tx: Transaction, older_ms: int, limit: int = 100) -> list[DueAgent]:
    """Agents whose messages have been due for so long: their workers missed a notification."""
    rows = tx.all(inbox.Q.due_agents, older_ms=older_ms, limit=limit)
    return [
        DueAgent(row["project_id"], row["agent_id"], row["channel_id"], row["worker_target"]) for row in rows
    ]
