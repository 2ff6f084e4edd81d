"""takeover: a running turn whose worker is gone continues with another one, under a new epoch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from afl.kernel.database import Transaction
from afl.turns.errors import ErrorCode
from afl.turns.model import L0Result, Limits, TurnRef, accepted, busy, rejected
from afl.turns.statuses import HeadStatus
from afl.turns.store.edges import Q
from afl.turns.store.heads import read_head, update_head
from afl.turns.store.steps import close_open_steps
from afl.turns.transitions import fail_turn


def takeover(
    tx: Transaction, turn: TurnRef, owner: str, *, dead: Iterable[str] = (), limits: Limits | None = None
) -> L0Result:
    """Give a running turn to another worker, when its lease ended or its worker is among the proven dead.

    The payload has the `head` to go on with. A turn that was taken over too often fails instead (`failed`).
    """
    bounds = limits or Limits()
    head = read_head(tx, turn.project_id, turn.agent_id, lock=True)
    if (
        head is None
        or head.status is not HeadStatus.RUNNING
        or head.active_agent_turn_id != turn.agent_turn_id
    ):
        return rejected(ErrorCode.STALE_TURN, f"turn {turn.agent_turn_id} of {turn.agent_id} is not running")
    if turn.expected_epoch not in (None, head.turn_epoch):
        return rejected(ErrorCode.STALE_TURN, f"turn {turn.agent_turn_id} is at epoch {head.turn_epoch}")
    if tx.one(Q.is_free, project=turn.project_id, agent=turn.agent_id, dead=list(dead)) is None:
        return busy(f"turn {turn.agent_turn_id} is held by {head.owner}")
    if head.takeovers >= bounds.max_takeovers:
        error = f"{head.takeovers + 1} workers were lost on this turn"
        ended = fail_turn(tx, head, error=error, error_code=ErrorCode.TAKEOVERS_EXCEEDED)
        return replace(ended, payload={**ended.payload, "failed": True})
    taken = update_head(tx, Q.take_over, head, owner=owner, lease_ms=bounds.lease_ms)
    tx.run(
        Q.inherit_waits,
        project=turn.project_id,
        agent=turn.agent_id,
        turn=turn.agent_turn_id,
        epoch=taken.turn_epoch,
    )
    close_open_steps(tx, turn.project_id, turn.agent_turn_id, f"worker {head.owner} was lost")
    return accepted({"agent_turn_id": turn.agent_turn_id, "turn_epoch": taken.turn_epoch, "head": taken})
