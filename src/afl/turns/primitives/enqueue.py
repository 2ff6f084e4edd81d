"""enqueue: one request is one turn. It waits in the queue of its agent, and begins at once when that is idle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from afl.kernel.codec import encode_canonical
from afl.kernel.database import Row, Transaction
from afl.kernel.errors import FencedError
from afl.turns.cardbox.boxes import create_output_box
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import EnteredTurn, FreeSlot, Head, InboxRow, L0Result, Limits, accepted, busy, rejected
from afl.turns.primitives.dispatch_next import dispatch, dispatch_wakeup, lease_turn, oldest_queued
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.primitives.new_turn import NewTurn, descendant
from afl.turns.primitives.sources import Q, check_source_status
from afl.turns.protocol.events import action_ack, wakeup_message
from afl.turns.protocol.headers import without_identity
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.payloads import check_turn, check_ui_action
from afl.turns.statuses import (
    ActionStatus,
    BoxKind,
    DepthPolicy,
    HeadStatus,
    InboxStatus,
    MessageType,
    WakeupReason,
)
from afl.turns.store import inbox
from afl.turns.store.edges import Q as EDGES
from afl.turns.store.heads import create_head, locking
from afl.turns.transitions.running import enter_running


def enqueue(
    tx: Transaction,
    context: TurnContext,
    intent: SpawnIntent,
    limits: Limits | None = None,
    slot: FreeSlot | None = None,
) -> L0Result:
    """A new turn (T1, and T2 when the agent is idle), or a UI action (T2u, or busy and nothing written).

    The same correlation_id with the same target and payload again is the same turn: it is acknowledged, and
    nothing changes. An action is acknowledged at once (`evt.sys.ui.action_ack`). `slot`: a worker of this process that
    enters the turn in the same transaction, if it serves the agent and the turn is dispatched (T3).
    """
    result = _enqueued(tx, context, intent, limits or Limits(), slot)
    return _acknowledged(context, intent, result) if intent.message_type is MessageType.UI_ACTION else result


def _enqueued(
    tx: Transaction, context: TurnContext, intent: SpawnIntent, limits: Limits, slot: FreeSlot | None
) -> L0Result:
    try:
        turn, target = _checked(tx, context, intent, limits)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    known = _known(tx, turn) if intent.correlation_id is not None else None
    if known is not None:
        return known
    if intent.message_type is MessageType.UI_ACTION:
        return _begin_action(tx, turn)
    return _write(tx, turn, target, slot) or _known(tx, turn) or _duplicate(turn)


def _write(tx: Transaction, turn: NewTurn, target: _Target, slot: FreeSlot | None) -> L0Result | None:
    """The message and its edge; the turn is dispatched when its agent is idle. None: there is such a message already.

    The head is locked: a transaction that ends the agent's turn sees the message, or this one sees the idle head.
    """
    project, agent = turn.context.project_id, turn.context.agent_id
    head = target.head or create_head(tx, project, agent)
    is_idle = head.status is HeadStatus.IDLE
    if is_idle and not target.queued:
        return _begin(tx, turn, head.turn_epoch + 1, slot)
    if not _put(tx, turn, InboxStatus.QUEUED, 0):
        return None
    if is_idle:  # an older turn waits, and is dispatched in place of this one
        return replace(dispatch(tx, target.queued), payload=turn.acknowledgment())
    return accepted(turn.acknowledgment())


def _begin(tx: Transaction, turn: NewTurn, epoch: int, slot: FreeSlot | None) -> L0Result | None:
    """The first message of an idle agent is dispatched at once: it is never queued."""
    if not _put(tx, turn, InboxStatus.PENDING, epoch):
        return None
    context = replace(turn.context, turn_epoch=epoch)
    head = lease_turn(tx, context, turn.inbox_id, turn.payload, context.headers())
    assert head is not None  # it is idle, and this transaction has locked it
    if slot is None or turn.worker_target not in slot.targets:
        wakeup = dispatch_wakeup(context, head, turn.worker_target)
        return accepted(turn.acknowledgment(head), signals=(wakeup,))
    step = new_id("step")
    running = enter_running(
        tx, head, inbox_id=turn.inbox_id, owner=slot.owner, step_id=step, lease_ms=slot.lease_ms
    )
    return accepted(turn.acknowledgment(head), entered=EnteredTurn(running, step, ()))


def _put(tx: Transaction, turn: NewTurn, status: InboxStatus, epoch: int) -> bool:
    message = turn.message(status, epoch)
    if message["correlation"] is None:  # its id was made here, so there is no such message
        tx.queue(inbox.Q.put, **message)
    elif not inbox.put(tx, message):
        return False
    tx.queue(EDGES.add_edge, **turn.edge())
    return True


def _duplicate(turn: NewTurn) -> L0Result:
    return rejected(ErrorCode.PROTOCOL_VIOLATION, f"message {turn.inbox_id} exists")


def _acknowledged(context: TurnContext, intent: SpawnIntent, result: L0Result) -> L0Result:
    payload: Mapping[str, Any] = intent.payload if isinstance(intent.payload, Mapping) else {}
    action = payload.get("action_id")
    if not isinstance(action, str) or not action:
        return result
    ack = action_ack(
        context.headers(),
        action_id=action,
        agent_id=intent.target_agent_id,
        status=ActionStatus(str(result.status)),
        message_id=payload.get("message_id"),
        error_code=result.error_code,
        error=result.error,
    )
    return replace(result, signals=(*result.signals, ack))


def _begin_action(tx: Transaction, turn: NewTurn) -> L0Result:
    """The agent is leased first, so that a busy one leaves no trace of the action."""
    context, box = turn.context, new_id("box")
    lease = Lease(
        project_id=context.project_id,
        agent_id=context.agent_id,
        agent_turn_id=context.agent_turn_id,
        channel_id=context.channel_id,
        inbox_id=turn.inbox_id,
        output_box_id=box,
        profile_box_id=turn.payload["profile_box_id"],
        recursion_depth=context.recursion_depth,
        parent_step_id=context.parent_step_id or None,
        trace_id=context.trace_id,
        expecting_correlation_id=turn.payload["action_id"],
        headers=context.headers(),
    )
    head = lease_agent_turn_with_conn(tx, lease)
    if head is None:
        return busy(f"agent {context.agent_id} has a turn; try again when it is idle")
    action = {name: value for name, value in turn.payload.items() if name != "profile_box_id"}
    create_output_box(tx, context.project_id, box, context.agent_turn_id)
    if not _put(tx, replace(turn, payload=action), InboxStatus.PENDING, head.turn_epoch):
        raise FencedError(f"ui_action {turn.correlation_id!r} exists already; nothing was written")
    leased = replace(context, turn_epoch=head.turn_epoch)
    wakeup = wakeup_message(leased, turn.worker_target, context.agent_id, WakeupReason.ENQUEUE, turn.inbox_id)
    return accepted(turn.acknowledgment(head), signals=(wakeup,))


class _Target(NamedTuple):
    """The agent that is to get the turn: its head, which is locked, and the oldest message that waits for it."""

    head: Head | None
    queued: Sequence[Row]


def _checked(
    tx: Transaction, context: TurnContext, intent: SpawnIntent, limits: Limits
) -> tuple[NewTurn, _Target]:
    if intent.message_type not in (MessageType.TURN, MessageType.UI_ACTION):
        raise ProtocolViolation(f"{intent.message_type} does not start a turn; expected turn or ui_action")
    where = f"{intent.message_type} for {intent.target_agent_id}"
    child = descendant(context, intent, new_id("turn"))
    payload = without_identity(intent.payload, child.headers(), where)
    is_turn = intent.message_type is MessageType.TURN
    payload = check_turn(payload) if is_turn else check_ui_action(payload)
    target = context.project_id, intent.target_agent_id
    asked = {
        "project": context.project_id,
        "source": context.agent_id,
        "source_turn": context.agent_turn_id,
        "target": intent.target_agent_id,
        "context_box": payload.get("context_box_id"),
        "output_box": payload.get("output_box_id"),
        "profile_box": payload.get("profile_box_id"),
    }
    known, heads, queued = tx.each((Q.about_enqueue, asked), locking(*target), oldest_queued(*target))
    about = known[0] if known else None
    _check_target(context, intent, about)
    assert about is not None
    child = _deep_enough(context, child, about, intent.depth_policy, limits)
    if is_turn:
        _check_boxes(payload, about, where)
    payload["profile_box_id"] = payload.get("profile_box_id") or about["profile_box_id"]
    turn = NewTurn(
        context=child,
        source=context,
        payload=payload,
        correlation_id=intent.correlation_id or child.agent_turn_id,
        worker_target=about["worker_target"],
        message_type=intent.message_type,
    )
    return turn, _Target(Head.of(heads[0]) if heads else None, queued)


def _check_target(context: TurnContext, intent: SpawnIntent, about: Row | None) -> None:
    if about is None or about["target_status"] != "active":
        why = "is not in the roster of" if about is None else "is not active in"
        raise ProtocolViolation(
            f"agent {intent.target_agent_id!r} {why} {context.project_id}", ErrorCode.UNKNOWN_AGENT
        )
    check_source_status(context, about["source_status"])


def _deep_enough(
    context: TurnContext, child: TurnContext, about: Row, policy: DepthPolicy, limits: Limits
) -> TurnContext:
    """The depth grows from that of the calling turn in the store, whatever its headers say."""
    base = max(context.recursion_depth, about["source_depth"] or 0)
    depth = {DepthPolicy.ROOT: 0, DepthPolicy.PEER: base, DepthPolicy.DESCEND: base + 1}[policy]
    if policy is DepthPolicy.DESCEND and not context.agent_turn_id:
        depth = base  # outside of any turn there is nothing to descend from
    if depth >= limits.max_depth:
        raise ProtocolViolation(
            f"a turn of {child.agent_id} would be {depth} deep; the limit is {limits.max_depth}",
            ErrorCode.RECURSION_DEPTH_EXCEEDED,
        )
    return replace(child, recursion_depth=depth)


def _check_boxes(payload: Mapping[str, Any], about: Row, where: str) -> None:
    wanted = {
        "context": (payload["context_box_id"], {BoxKind.CONTEXT, BoxKind.OUTPUT}),
        "output": (payload["output_box_id"], {BoxKind.OUTPUT}),
        "profile": (payload.get("profile_box_id"), {BoxKind.PROFILE}),
    }
    for name, (box, kinds) in wanted.items():
        kind = about[f"{name}_kind"]
        if box is not None and kind is None:
            raise ProtocolViolation(f"{where}: there is no {name} box {box}", ErrorCode.UNKNOWN_BOX)
        if box is not None and kind not in kinds:
            raise ProtocolViolation(f"{where}: box {box} is a {kind} box, it cannot be the {name} box")


def _known(tx: Transaction, turn: NewTurn) -> L0Result | None:
    """The answer to the same request before; refused when the correlation_id is that of another request."""
    row = tx.one(
        inbox.Q.enqueued_row,
        project=turn.context.project_id,
        type=str(turn.message_type),
        correlation=turn.correlation_id,
    )
    if row is None:
        return None
    message = InboxRow.of(row)
    wanted = {n: v for n, v in turn.payload.items() if n != "profile_box_id"}
    given = {n: v for n, v in message.payload.items() if n != "profile_box_id"}
    if message.agent_id != turn.context.agent_id or encode_canonical(given) != encode_canonical(wanted):
        return rejected(
            ErrorCode.PROTOCOL_VIOLATION,
            f"correlation {turn.correlation_id!r} names another {turn.message_type} of {message.agent_id}",
        )
    answer = {
        "inbox_id": message.inbox_id,
        "correlation_id": message.correlation_id,
        "agent_turn_id": message.agent_turn_id,
        "channel_id": message.channel_id,
        "duplicate": True,
    }
    return accepted(answer | ({"turn_epoch": message.turn_epoch} if message.turn_epoch else {}))
