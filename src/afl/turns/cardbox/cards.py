"""Cards: facts that never change. A card is checked when it is made, so no bad one is ever stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.codec import encode
from afl.kernel.errors import PayloadError
from afl.turns.cardbox.parts import check_parts
from afl.turns.errors import CardError, ErrorCode
from afl.turns.model import Limits
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import AfterExecution, CardType, TaskStatus

TYPE = "__type__"
TEXT = "TextContent"
JSON = "JsonContent"
FIELDS_SCHEMA = "FieldsSchemaContent"
TOOLS = "ToolContent"
TOOL_CALL = "ToolCallContent"
TOOL_RESULT = "ToolResultContent"
CONTROL = "__cg_control"  # in a tool's result: overrides its after_execution

_ROLES: dict[str, str] = {
    CardType.TASK_INSTRUCTION: "user",
    CardType.AGENT_THOUGHT: "assistant",
    CardType.TOOL_RESULT: "tool",
    CardType.TASK_DELIVERABLE: "assistant",
}


@dataclass(frozen=True, slots=True)
class NewCard:
    """A card about to be saved; its id is its own from the beginning, so a retry saves it once."""

    type: str
    content: Mapping[str, Any]
    author_id: str
    role: str = ""
    agent_turn_id: str = ""
    step_id: str = ""
    tool_call_id: str = ""
    function_name: str = ""
    tool_calls: Sequence[Mapping[str, Any]] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    card_id: str = field(default_factory=lambda: new_id("card"))


@dataclass(frozen=True, slots=True)
class Card(NewCard):
    """A card as it is stored."""

    created_at: int = 0

    @property
    def after_execution(self) -> str:
        """`suspend` or `terminate`: `__cg_control` in the result wins over the card."""
        result = self.content.get("result")
        control = result.get(CONTROL) if isinstance(result, Mapping) else None
        wanted = control.get("after_execution") if isinstance(control, Mapping) else None
        if wanted in tuple(AfterExecution):  # not a set: it may be a list or a map, which have no hash
            return str(wanted)
        return str(self.content.get("after_execution", AfterExecution.SUSPEND))


def text(value: str) -> dict[str, Any]:
    return {TYPE: TEXT, "text": value}


def json_data(value: Any) -> dict[str, Any]:
    return {TYPE: JSON, "data": value}


def fields_schema(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The fields of a deliverable: [{name, description}]."""
    return {TYPE: FIELDS_SCHEMA, "fields": list(fields)}


def tool_call_content(
    tool_name: str, arguments: Any, *, status: str = "called", target_subject: str | None = None
) -> dict[str, Any]:
    return {
        TYPE: TOOL_CALL,
        "tool_name": tool_name,
        "arguments": arguments,
        "status": status,
        "target_subject": target_subject,
    }


def tool_result_content(
    status: str,
    after_execution: str = AfterExecution.SUSPEND,
    result: Any = None,
    error: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        TYPE: TOOL_RESULT,
        "status": str(status),
        "after_execution": str(after_execution),
        "result": result,
        "error": dict(error) if error is not None else None,
    }


def check_card(card: NewCard, limits: Limits) -> str:
    """The content as JSON; CardError says what is wrong with the card."""
    where = f"card {card.card_id} ({card.type})"
    if card.type not in tuple(CardType):
        raise CardError(f"{where}: {card.type!r} is not a type of card; known are {', '.join(CardType)}")
    if not card.author_id:
        raise CardError(f"{where}: it has no author_id")
    if card.type in (CardType.TOOL_CALL, CardType.TOOL_RESULT) and not (
        card.tool_call_id and card.function_name
    ):
        raise CardError(f"{where}: it needs tool_call_id and function_name")
    check = _CONTENTS.get(str(card.content.get(TYPE)))
    if check is None:
        raise CardError(f"{where}: content.{TYPE} is none of {', '.join(_CONTENTS)}")
    if card.type in _FIXED and card.content[TYPE] != _FIXED[card.type]:
        raise CardError(f"{where}: its content must be {_FIXED[card.type]}, it is {card.content[TYPE]}")
    check(card.content, where)
    check_parts(card.content, where)
    return encoded(card.content, where, limits)


def encoded(value: Any, where: str, limits: Limits) -> str:
    """JSON within the limit for a card."""
    try:
        data = encode(value, what=where, limit=1 << 60)
    except PayloadError as error:
        raise CardError(str(error)) from error
    if len(data) > limits.card_bytes:
        raise CardError(
            f"{where} is {len(data):,} bytes, more than the limit of {limits.card_bytes:,}; "
            "keep large data elsewhere and point to it",
            ErrorCode.CARD_TOO_LARGE,
        )
    return data


def role_of(card: NewCard) -> str:
    """The role it was given, or the usual one of its type."""
    return card.role or _ROLES.get(card.type, "system")


def _check_text(content: Mapping[str, Any], where: str) -> None:
    if not isinstance(content.get("text"), str):
        raise CardError(f"{where}: content.text must be text")


def _check_json(content: Mapping[str, Any], where: str) -> None:
    if "data" not in content:
        raise CardError(f"{where}: content.data is missing")


def _check_fields(content: Mapping[str, Any], where: str) -> None:
    fields = content.get("fields")
    names = [each.get("name") if isinstance(each, Mapping) else None for each in fields or ()]
    if not isinstance(fields, Sequence) or not all(isinstance(name, str) and name for name in names):
        raise CardError(
            f"{where}: content.fields must be a list of {{name, description}}", ErrorCode.MALFORMED_SCHEMA
        )
    if len(set(names)) != len(names):
        raise CardError(f"{where}: content.fields names a field twice", ErrorCode.MALFORMED_SCHEMA)


def _check_tools(content: Mapping[str, Any], where: str) -> None:
    if not isinstance(content.get("tools"), Sequence):
        raise CardError(f"{where}: content.tools must be a list")


def _check_call(content: Mapping[str, Any], where: str) -> None:
    if not content.get("tool_name") or not isinstance(content["tool_name"], str):
        raise CardError(f"{where}: content.tool_name must be text")


def _check_result(content: Mapping[str, Any], where: str) -> None:
    status, error = content.get("status"), content.get("error")
    if status not in tuple(TaskStatus):
        raise CardError(f"{where}: content.status is {status!r}; expected one of {', '.join(TaskStatus)}")
    if content.get("after_execution") not in tuple(AfterExecution):
        raise CardError(f"{where}: content.after_execution must be suspend or terminate")
    if status == TaskStatus.SUCCESS and error is not None:
        raise CardError(f"{where}: a successful result has no content.error")
    if error is not None and not (isinstance(error, Mapping) and {"code", "message"} <= error.keys()):
        raise CardError(f"{where}: content.error needs code and message")
    if status != TaskStatus.SUCCESS and error is None:
        raise CardError(f"{where}: a result other than success needs content.error with code and message")


_CONTENTS: dict[str, Callable[[Mapping[str, Any], str], None]] = {
    TEXT: _check_text,
    JSON: _check_json,
    FIELDS_SCHEMA: _check_fields,
    TOOLS: _check_tools,
    TOOL_CALL: _check_call,
    TOOL_RESULT: _check_result,
}
_FIXED: dict[str, str] = {
    CardType.TOOL_CALL: TOOL_CALL,
    CardType.TOOL_RESULT: TOOL_RESULT,
    CardType.RESULT_FIELDS: FIELDS_SCHEMA,
    CardType.SYS_PROFILE: JSON,
}
