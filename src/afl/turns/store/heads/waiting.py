"""A turn that waits: results are applied one by one in any order of arrival, then it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.database import Transaction
from afl.kernel.errors import FencedError
from afl.kernel.lease import LEASE_MS
from afl.turns.cardbox import boxes
from afl.turns.cardbox.cards import NewCard
from afl.turns.model import Head
from afl.turns.statuses import HeadStatus
from afl.turns.store import inbox
from afl.turns.store.edges import Q
from afl.turns.store.heads.fence import gated, moved
from afl.turns.store.heads.move import Move, make
from afl.turns.store.heads.reading import read_head
from afl.turns.store.steps import StepEnd


@dataclass(frozen=True, slots=True)
class Applied:
    """The head after a result, and how many are still to come."""

    head: Head
    remaining: int


def apply_result(
    tx: Transaction, head: Head, *, inbox_id: str | None, tool_call_id: str, tool_result_card_id: str
) -> Applied:
    """suspended -> suspended: a result is applied, by one winner; its card goes to the output box. T6."""
    move = Move(
        "apply",
        (HeadStatus.SUSPENDED,),
        {"call": tool_call_id, "card": tool_result_card_id},
        put=[tool_result_card_id],
        consume=inbox_id,
    )
    now = make(tx, head, move).head
    return Applied(now, now.waiting_tool_count)


def apply_early(
    tx: Transaction, head: Head, *, inbox_id: str | None, tool_call_id: str, tool_result_card_id: str
) -> None:
    """running -> running: a result that comes while the turn still runs is applied all the same. T4.

    The head is locked and not written: so the worker that runs the turn finds it as it left it.
    """
    now = read_head(tx, head.project_id, head.agent_id, lock=True)
    if now is None or now.gate != head.gate or now.status is not HeadStatus.RUNNING:
        raise FencedError(f"turn {head.active_agent_turn_id} of {head.agent_id} moved on")
    gate = {name: value for name, value in gated(head).items() if name != "revision"}
    if not tx.run(Q.mark_applied, **gate, call=tool_call_id, card=tool_result_card_id):
        raise FencedError(f"turn {head.active_agent_turn_id} does not wait for {tool_call_id}")
    turn, box = head.active_agent_turn_id or "", head.output_box_id or ""
    boxes.append(tx, head.project_id, box, turn, [tool_result_card_id])
    if inbox_id is not None:
        inbox.consume(tx, head.project_id, inbox_id)


def resume(
    tx: Transaction,
    head: Head,
    *,
    owner: str,
    step_id: str,
    cards: Sequence[NewCard] = (),
    ended: StepEnd | None = None,
    lease_ms: int = LEASE_MS,
) -> Head:
    """suspended -> running, once nothing is waited for: a new step of the same turn and epoch begins. T7."""
    values = {"owner": owner, "lease_ms": lease_ms}
    move = Move("resume", (HeadStatus.SUSPENDED,), values, cards=cards, close=ended, open=step_id)
    return make(tx, head, move).head


def extend_wait(tx: Transaction, head: Head, *, tool_call_id: str, deadline_ms: int) -> Head:
    """suspended -> suspended: a tool gave a sign of life, so its time runs anew. T6."""
    gate = {name: value for name, value in gated(head).items() if name != "revision"}
    tx.run(Q.extend_wait, **gate, call=tool_call_id, deadline_ms=deadline_ms)
    return moved(tx, Q.move_deadline, head)


def record_timeouts(tx: Transaction, head: Head) -> Head:
    """suspended -> suspended: the deadline is that of the calls whose time is not up yet, if any. T6."""
    return moved(tx, Q.move_deadline, head)


def renew(tx: Transaction, owner: str, lease_ms: int = LEASE_MS) -> list[tuple[str, str, str, int]]:
    """Renew the lease of every turn a worker runs: (project, agent, turn, epoch). No revision changes by that."""
    rows = tx.all(Q.renew, owner=owner, lease_ms=lease_ms)
    return [
        (row["project_id"], row["agent_id"], row["active_agent_turn_id"], row["turn_epoch"]) for row in rows
    ]
