"""wakeup: wake the workers of an agent. Only L0 makes these messages."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode
from afl.turns.model import L0Result, accepted, rejected
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.protocol.events import wakeup_message
from afl.turns.resources import get_agent
from afl.turns.statuses import WakeupReason
from afl.turns.store.heads import read_head


def wakeup(
    tx: Transaction,
    project_id: str,
    agent_id: str,
    reason: WakeupReason = WakeupReason.WATCHDOG_PENDING,
    *,
    dispatch: bool = False,
) -> L0Result:
    """A wake-up for one agent; with `dispatch` a queued turn of an idle agent is dispatched first."""
    agent = get_agent(tx, project_id, agent_id)
    if agent is None:
        return rejected(ErrorCode.UNKNOWN_AGENT, f"agent {agent_id!r} is not in the roster of {project_id}")
    if dispatch:
        following = dispatch_next(tx, project_id, agent_id)
        if following.signals:
            return following
    head = read_head(tx, project_id, agent_id)
    channel = head.active_channel_id if head is not None else None
    context = TurnContext.root(project_id, "sys.l0", channel or "public")
    return accepted(signals=(wakeup_message(context, agent.worker_target, agent_id, reason),))
