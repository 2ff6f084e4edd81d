"""Commands as they are published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.turns.context import TurnContext, stamped
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.message import Message
from afl.turns.protocol.headers import without_identity
from afl.turns.protocol.payloads import check_command_payload
from afl.turns.protocol.subjects import check_command


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
