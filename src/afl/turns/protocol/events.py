"""The messages of L0: `evt.agent.*.state`, `.step` and `.task`, `evt.sys.ui.action_ack`, wake-ups and commands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from afl.kernel.bounds import cut
from afl.turns.context import TurnContext, stamped
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.message import Message
from afl.turns.model import Head
from afl.turns.protocol import headers as names
from afl.turns.protocol.headers import without_identity
from afl.turns.protocol.ids import new_span
from afl.turns.protocol.payloads import check_command_payload
from afl.turns.protocol.subjects import action_ack_subject, check_command, event_subject, wakeup_subject
from afl.turns.statuses import ActionStatus, Activity, StepPhase, TaskStatus, WakeupReason


def state_event(
    head: Head,
    *,
    before: Head | None = None,
    activity: Activity | None = None,
    current_tool: str | None = None,
    waiting: Iterable[str] = (),
    error: str | None = None,
) -> Message:
    """The state of an agent. For an idle head, `before` is the head of the turn that ended."""
    metadata: dict[str, Any] = {"waiting_tool_count": head.waiting_tool_count}
    if activity is not None:
        metadata["activity"] = str(activity)
    if current_tool is not None:
        metadata["current_tool"] = current_tool
    if calls := list(waiting):
        metadata["waiting_tool_call_ids"] = calls
    if head.resume_deadline is not None:
        metadata["resume_deadline"] = _iso(head.resume_deadline)
    if error is not None:
        metadata["error"] = cut(error)
    source = head if head.active_agent_turn_id is not None or before is None else before
    turn = source.active_agent_turn_id or ""
    payload: dict[str, Any] = {
        "agent_id": head.agent_id,
        "agent_turn_id": turn,
        "status": str(head.status),
        "turn_epoch": head.turn_epoch,
        "updated_at": _iso(head.updated_at),
        "metadata": metadata,
    }
    if head.output_box_id is not None:
        payload["output_box_id"] = head.output_box_id
    return _event(source, head.turn_epoch, "state", payload)


def step_event(head: Head, step_id: str, phase: StepPhase, *, new_card_ids: Iterable[str] = ()) -> Message:
    """The phase of a step."""
    payload = {
        "agent_turn_id": head.active_agent_turn_id or "",
        "step_id": step_id,
        "phase": str(phase),
        "metadata": {},
        "new_card_ids": list(new_card_ids),
    }
    return _event(head, head.turn_epoch, "step", payload)


def task_event(
    headers: Mapping[str, str],
    *,
    turn_id: str,
    status: TaskStatus,
    output_box_id: str,
    deliverable_card_id: str,
    tool_result_card_id: str | None = None,
    error: str | None = None,
    error_code: str | None = None,
    stats: Mapping[str, Any] | None = None,
) -> Message:
    """The end of a turn: pointers only, the content is in the card. The headers are the turn's."""
    payload: dict[str, Any] = {
        "agent_turn_id": turn_id,
        "status": str(status),
        "output_box_id": output_box_id,
        "deliverable_card_id": deliverable_card_id,
    }
    optional = {"tool_result_card_id": tool_result_card_id, "error": error, "error_code": error_code}
    payload |= {name: cut(str(value)) for name, value in optional.items() if value is not None}
    if stats:
        payload["stats"] = dict(stats)
    plain = {name: value for name, value in headers.items() if name not in names.TOPOLOGY}
    subject = event_subject(headers[names.PROJECT], headers[names.CHANNEL], headers[names.AGENT], "task")
    return Message(subject, stamped(plain, "evt.agent.task", headers[names.AGENT]), payload)


def action_ack(
    headers: Mapping[str, str], *, action_id: str, agent_id: str, status: ActionStatus, **more: object
) -> Message:
    """`evt.sys.ui.action_ack`: the state of an action; `more` may be message_id, tool_result_card_id, error ..."""
    payload: dict[str, Any] = {"action_id": action_id, "agent_id": agent_id, "status": str(status)}
    payload |= {name: str(value) for name, value in more.items() if value is not None}
    plain = {name: value for name, value in headers.items() if name not in names.TOPOLOGY}
    subject = action_ack_subject(headers[names.PROJECT], headers[names.CHANNEL])
    return Message(subject, stamped(plain, "evt.sys.ui.action_ack"), payload)


def wakeup_message(
    context: TurnContext,
    target: str,
    agent_id: str,
    reason: WakeupReason,
    inbox_id: str | None = None,
) -> Message:
    """A wake-up for the workers of a target. It is a hint: the inbox says what there is to do."""
    found = context.headers(topology=False) | {names.AGENT: agent_id}
    payload = {"agent_id": agent_id, "reason": str(reason)}
    if inbox_id is not None:
        payload["inbox_id"] = inbox_id
    subject = wakeup_subject(context.project_id, context.channel_id, target)
    return Message(subject, stamped(found, "cmd.agent.wakeup"), payload)


def command_message(context: TurnContext, subject: str, payload: Mapping[str, Any]) -> Message:
    """A command of a turn; ProtocolViolation when its subject or payload cannot be."""
    parsed = check_command(subject, context.project_id, context.channel_id)
    if not isinstance(payload, Mapping):
        raise ProtocolViolation("the payload of a command must be a map", ErrorCode.MALFORMED_PAYLOAD)
    found = context.headers()
    checked = check_command_payload(without_identity(payload, found, f"command {subject}"))
    return Message(
        subject, stamped(found, f"cmd.{parsed.component}.{parsed.target}", context.agent_id), checked
    )


def _event(head: Head, epoch: int, kind: str, payload: Mapping[str, Any]) -> Message:
    """Of the turn that the head has, or had."""
    channel = head.active_channel_id or "public"
    found = {
        names.PROJECT: head.project_id,
        names.CHANNEL: channel,
        names.AGENT: head.agent_id,
        names.TURN: head.active_agent_turn_id or "",
        names.EPOCH: str(epoch),
    }
    if names.TRACE in head.context_headers:
        found[names.TRACE] = new_span(head.context_headers[names.TRACE])
    subject = event_subject(head.project_id, channel, head.agent_id, kind)
    return Message(subject, stamped(found, f"evt.agent.{kind}", head.agent_id), payload)


def _iso(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, UTC).isoformat()
