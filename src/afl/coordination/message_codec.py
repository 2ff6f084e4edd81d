"""Messages as JSON text, and back."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from json.encoder import encode_basestring as _quoted
from typing import Any

from pydantic import ValidationError

from afl.coordination.errors import CoordinatorInputError
from afl.coordination.models import AgentId, AgentMessage, MessagePriority, MessageType
from afl.kernel.errors import PayloadError

_plain = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_MAX_ERROR = 4_000  # characters of an error text that are kept


def encode_payload(payload: dict[str, Any], limit: int) -> str:
    """JSON text of a payload that decodes to the same value; PayloadError says why there is none."""
    try:
        text = _plain(payload)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise PayloadError(f"payload is not plain JSON data: {error}") from error
    if size > limit:
        raise PayloadError(f"payload is {size:,} bytes, more than the limit of {limit:,}")
    return text


def encode_message(
    message: AgentMessage,
    kind: MessageType,
    priority: MessagePriority,
    sender: AgentId,
    recipient: AgentId,
    payload: str,
) -> bytes:
    """JSON text of a message. The arguments override the message's own sender and recipient."""
    routing, reply_to = message.routing, message.reply_to
    stamp = message.timestamp or datetime.now(UTC).isoformat()
    text = (
        f'{{"message_id":{_quoted(message.message_id)},"sender":{_agent(sender)},"recipient":{_agent(recipient)},'
        f'"message_type":"{kind.value}","payload":{payload},"priority":{priority.value},'
        f'"routing":{{"topic":{_text(routing.topic)},"tags":{_plain(routing.tags) if routing.tags else "[]"}}},'
        f'"timestamp":{_quoted(stamp)},"correlation_id":{_text(message.correlation_id)},'
        f'"reply_to":{"null" if reply_to is None else _agent(reply_to)}}}'
    )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise PayloadError(f"message is not plain JSON data: {error}") from error


def decode_message(body: bytes) -> AgentMessage:
    """Decode a message; ValueError (pydantic's is one) when it is invalid."""
    try:
        return AgentMessage.model_validate_json(body)
    except ValidationError:  # its own parser is quick, but rejects nesting that the other one accepts
        pass
    try:
        return AgentMessage.model_validate(json.loads(body))
    except RecursionError as error:
        raise ValueError(f"it is nested too deeply: {error}") from error


def encode_error(error: str | None) -> bytes:
    """JSON text of an error message, truncated when very long; empty for none."""
    if error is None:
        return b""
    if not isinstance(error, str):
        raise CoordinatorInputError(f"error is a {type(error).__name__}; expected text")
    # Half a surrogate pair, as in the name of a file that is not text, is not JSON for every reader.
    text = error[:_MAX_ERROR].encode("utf-8", "backslashreplace").decode()
    return json.dumps(text).encode()


def decode_error(text: bytes) -> str | None:
    """ValueError when it cannot be read."""
    try:
        return None if not text else str(json.loads(text))
    except RecursionError as error:
        raise ValueError(f"it is nested too deeply: {error}") from error


def moment(microseconds: int) -> str:
    """A time of the server as text: UTC, ISO format; ValueError when it is invalid."""
    try:
        return datetime.fromtimestamp(microseconds / 1_000_000, UTC).isoformat()
    except (OverflowError, OSError) as error:
        raise ValueError(f"{microseconds} is no time") from error


def _agent(agent_id: AgentId) -> str:
    return f'{{"type":{_quoted(agent_id.type)},"instance":{_text(agent_id.instance)}}}'


def _text(value: str | None) -> str:
    return "null" if value is None else _quoted(value)
