"""What messages may say. A payload with anything else in it is refused before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from afl.kernel.bounds import LONGEST_NAME, LONGEST_TEXT, is_name
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.statuses import AfterExecution, TaskStatus

_TURN = {"profile_box_id", "context_box_id", "output_box_id", "display_name", "metadata", "runtime_config"}
_UI_ACTION = {"action_id", "tool_name", "args", "message_id", "metadata"}
_REPORT = {"status", "after_execution", "tool_result_card_id"}
_COMMAND = {"tool_name", "after_execution", "tool_call_card_id"}
_STOP = {"reason"}


def check_turn(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a `turn`."""
    _only(payload, _TURN, "turn")
    for name in ("context_box_id", "output_box_id"):
        _name(payload, name, "turn")
    for name in ("metadata", "runtime_config"):
        _map(payload, name, "turn")
    if payload.get("profile_box_id") is not None:
        _name(payload, "profile_box_id", "turn")
    return dict(payload)


def check_ui_action(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a `ui_action`."""
    _only(payload, _UI_ACTION, "ui_action")
    _name(payload, "action_id", "ui_action")
    _name(payload, "tool_name", "ui_action")
    for name in ("args", "metadata"):
        _map(payload, name, "ui_action")
    return dict(payload)


def check_report(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a `tool_result` or `timeout`: pointers, never the result itself."""
    _only(payload, _REPORT, "report")
    _name(payload, "tool_result_card_id", "report")
    _word(payload, "status", TaskStatus, "report")
    _word(payload, "after_execution", AfterExecution, "report")
    return {name: str(value) for name, value in payload.items()}


def check_command_payload(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a command: what to call; its arguments stand in the card."""
    _only(payload, _COMMAND, "command")
    _name(payload, "tool_name", "command")
    _name(payload, "tool_call_card_id", "command")
    _word(payload, "after_execution", AfterExecution, "command")
    return {name: str(value) for name, value in payload.items()}


def check_stop(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload of a `stop`."""
    _only(payload, _STOP, "stop")
    if payload.get("reason") is not None:
        _text(payload, "reason", "stop")
    return dict(payload)


def _only(payload: Mapping[str, Any], allowed: set[str], what: str) -> None:
    extra = sorted(map(str, payload.keys() - allowed))
    if extra:
        raise ProtocolViolation(
            f"{what}: the payload has {', '.join(extra)}; allowed are {', '.join(sorted(allowed))}",
            ErrorCode.FORBIDDEN_FIELD,
        )


def _text(payload: Mapping[str, Any], name: str, what: str) -> str:
    value = payload.get(name)
    if not isinstance(value, str) or not value:
        raise _malformed(f"{what}: payload.{name} must be text that is not empty")
    if len(value) > LONGEST_TEXT or "\0" in value:
        raise _malformed(
            f"{what}: payload.{name} must be text of at most {LONGEST_TEXT:,} characters, without NUL"
        )
    return value


def _name(payload: Mapping[str, Any], name: str, what: str) -> None:
    if not is_name(_text(payload, name, what)):
        raise _malformed(
            f"{what}: payload.{name} must have at most {LONGEST_NAME} characters, no control characters among them"
        )


def _map(payload: Mapping[str, Any], name: str, what: str) -> None:
    if not isinstance(payload.get(name, {}), Mapping):
        raise _malformed(f"{what}: payload.{name} must be a map")


def _word(payload: Mapping[str, Any], name: str, words: Any, what: str) -> None:
    if payload.get(name) not in tuple(words):
        raise _malformed(f"{what}: payload.{name} must be one of {', '.join(words)}")


def _malformed(text: str) -> ProtocolViolation:
    return ProtocolViolation(text, ErrorCode.MALFORMED_PAYLOAD)
