"""What was said in one call to a model, for people who look at it later: bounded, without secrets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from afl.kernel.redaction import redacted
from afl.models.content import Content, described
from afl.models.messages import Block, Message, Reply, Request, Text, ToolResult, ToolUse

LONGEST_TEXT = 16_384
MOST_PARTS = 64


@dataclass(frozen=True, slots=True)
class Part:
    """One piece of a prompt or a reply. `kind` is system, text, tool-call, tool-result, tool-error or other.

    `name` is the tool of a call. A long text is cut; `length` is how many characters it had.
    """

    kind: str
    text: str
    name: str = ""
    length: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A call: what was new in its prompt since the call before, and the reply."""

    prompt: list[Part] = field(default_factory=list)
    reply: list[Part] = field(default_factory=list)

    @classmethod
    def of(cls, request: Request, reply: Reply) -> Exchange:
        """What a request says that the one before did not, and what came back."""
        new, is_first = _new_messages(request)
        system = [_part("system", request.system)] if request.system and is_first else []
        said = [_block(block) for message in new for block in message.content]
        return cls([*system, *said][:MOST_PARTS], [_block(block) for block in reply.content][:MOST_PARTS])

    def encode(self) -> str:
        """As a store keeps it."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decode(cls, text: str) -> Exchange:
        """What `encode` gave."""
        return msgspec.json.decode(text, type=cls)


def _new_messages(request: Request) -> tuple[list[Message], bool]:
    """The messages after the model's last one, and whether it has said nothing before."""
    new: list[Message] = []
    for message in reversed(request.messages):
        if message.role == "assistant":
            return new[::-1], False
        new.append(message)
    return new[::-1], True


def _block(block: Block) -> Part:
    if isinstance(block, Text):
        return _part("text", block.text)
    if isinstance(block, ToolUse):
        return _part("tool-call", _json(block.input), block.name)
    if isinstance(block, ToolResult):
        told = "\n".join([block.content, *map(described, block.files)]).strip("\n")
        return _part(
            "tool-error" if block.is_error else "tool-result", told if block.files else block.content
        )
    if isinstance(block, Content):
        return _part("other", described(block))
    return _part("other", _json(getattr(block, "data", {})))


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _part(kind: str, text: str, name: str = "") -> Part:
    return Part(kind, redacted(text)[:LONGEST_TEXT], name, len(text))
