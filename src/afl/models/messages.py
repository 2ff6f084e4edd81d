"""What goes to a model and what comes back: our own small types, and none of a vendor's."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from afl.kernel import codec
from afl.kernel.errors import PayloadError
from afl.models.content import Content, File, FileRef, FileUrl
from afl.models.settings import ModelSettings
from afl.models.usage import Usage

MAX_TOKENS = 4096


def stored_data(given: Any) -> Any:
    """What a model gave, with a text in the place of each part that JSON does not have.

    Readers of JSON take NaN, half a character and endless nesting. What is checked then is the text, so that the model
    is told; the whole would end its step.
    """
    try:
        codec.encode(given, limit=sys.maxsize)
    except PayloadError:
        return _with_texts(given, 0)
    return given


def _with_texts(value: Any, level: int) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if level == codec.MAX_LEVELS:
        return "..."
    if isinstance(value, Mapping):
        return {_with_texts(key, level): _with_texts(each, level + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_texts(each, level + 1) for each in value]
    return value


UNREADABLE = "INVALID_JSON"  # the only key of arguments that were no JSON object, as Pydantic AI has it


def unreadable(arguments: Mapping[str, Any], tool: str) -> str | None:
    """What to tell a model whose arguments of a tool were no JSON object, such as half of one; None: they were."""
    if list(arguments) != [UNREADABLE]:
        return None
    return f"the arguments of {tool} are not a JSON object; call it again with one, a shorter one if it was cut off"


@dataclass(frozen=True, slots=True)
class Text:
    """Words. `details` are what its provider wants back with it, such as a signature."""

    text: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", stored_data(self.text))


@dataclass(frozen=True, slots=True)
class ToolUse:
    """The model wants a tool called. `details` are what its provider wants back with the call."""

    id: str
    name: str
    input: Mapping[str, Any]
    details: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "input", stored_data(self.input))


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool gave; every ToolUse of a reply has one in the message that follows it."""

    tool_use_id: str
    content: str
    is_error: bool = False
    files: tuple[Content, ...] = ()


@dataclass(frozen=True, slots=True)
class Opaque:
    """A block that only the model understands, such as its thinking. It goes back as it came."""

    data: Mapping[str, Any]


Block = Text | ToolUse | ToolResult | Opaque | File | FileUrl | FileRef


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Literal["user", "assistant"]
    content: tuple[Block, ...]

    @classmethod
    def user(cls, *content: Block | str) -> Message:
        """A turn of the user; a string is its text."""
        return cls("user", tuple(Text(part) if isinstance(part, str) else part for part in content))


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model sees it; `input_schema` is a JSON schema of an object."""

    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """One call. An empty `model` is the one that the Model has as its own."""

    messages: tuple[Message, ...]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    model: str = ""
    max_tokens: int = MAX_TOKENS
    settings: ModelSettings = field(default_factory=ModelSettings)


def files_in(request: Request) -> list[Content]:
    """All that a request has beside text and calls."""
    found: list[Content] = []
    for message in request.messages:
        for block in message.content:
            if isinstance(block, Content):
                found.append(block)
            elif isinstance(block, ToolResult):
                found += block.files
    return found


class StopReason:
    """Why a reply ended. A model may have other words of its own."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTEXT_FULL = "model_context_window_exceeded"


# Why a reply is not complete, with the words for people.
CUT_OFF = {
    StopReason.MAX_TOKENS: "max_tokens",
    StopReason.CONTEXT_FULL: "the end of the model's context window",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """What came of a call; `model` is the full name of the one that answered."""

    content: tuple[Block, ...]
    stop_reason: str = StopReason.END_TURN
    usage: Usage = field(default_factory=Usage)
    model: str = ""

    @property
    def text(self) -> str:
        """Its words, all in one."""
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_uses(self) -> list[ToolUse]:
        """The tools it wants called, in their order."""
        return [block for block in self.content if isinstance(block, ToolUse)]

    def as_message(self) -> Message:
        """The turn it is in the conversation that goes on."""
        return Message("assistant", self.content)
