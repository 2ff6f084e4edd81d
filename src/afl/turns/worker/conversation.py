"""The conversation of a turn: from cards to the messages of a request, and from a reply to the content of a card.

The order: cards of earlier turns in the output box, then the other cards of the context box, then those of this turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from afl.kernel import codec
from afl.models import Block, Message, Opaque, Reply, Text, ToolResult, ToolUse
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.deliverable import deliverable_text
from afl.turns.cardbox.parts import files_of, parts_of
from afl.turns.tools.approved import edits_of

Role = Literal["user", "assistant"]
_NO_RESULT = "There is no result: the turn ended before this tool answered."
_SILENT = frozenset(
    {"tool.call", "sys.profile", "sys.rendered_prompt", "sys.tools", "meta.parent_pointer"}
    | {"sys.session", "sys.guardrail"}
)


def conversation(context: Sequence[Card], output: Sequence[Card], turn_id: str) -> list[Card]:
    """The cards in the order in which a model reads them, each once."""
    earlier = [card for card in output if card.agent_turn_id != turn_id]
    own = [card for card in output if card.agent_turn_id == turn_id and card.type != "sys.summary"]
    seen = {
        card.card_id for card in output if card.type != "sys.summary"
    }  # which is read before the turns it precedes
    return [*earlier, *(card for card in context if card.card_id not in seen), *own]


def messages(cards: Sequence[Card]) -> tuple[Message, ...]:
    """The cards as a conversation: turns alternate, the user begins, and every tool use has its result after it."""
    results = {card.tool_call_id: card for card in cards if card.type == "tool.result"}
    edits = edits_of(cards)
    thinkers = {card.agent_turn_id for card in cards if card.type == "agent.thought"}
    rewritten = {
        card.metadata["rewrites"]: card
        for card in cards
        if card.type == "sys.guardrail" and "rewrites" in card.metadata
    }
    said: list[tuple[Role, list[Block]]] = []
    for card in cards:
        if card.type == "agent.thought":
            uses = thought_blocks(card)
            _say(said, "assistant", uses)
            _say(
                said,
                "user",
                [_result(use.id, results, edits.get(use.id, "")) for use in uses if isinstance(use, ToolUse)],
            )
        elif card.type == "task.deliverable":
            if card.agent_turn_id not in thinkers:  # else its words are in the thought before it
                _say(said, "assistant", _text(deliverable_text(card.content)))
        elif card.type not in _SILENT and card.type != "tool.result":
            role: Role = "assistant" if card.role == "assistant" else "user"
            _say(said, role, _given(card, rewritten.get(card.card_id)))
    if said and said[0][0] == "assistant":
        said.insert(0, ("user", [Text("(what follows was said before)")]))
    return tuple(Message(role, tuple(blocks)) for role, blocks in said)


def thought_content(reply: Reply) -> dict[str, Any]:
    """The text of a reply; with its blocks in their order, if its provider wants back more than text and calls."""
    content = contents.text(reply.text)
    if any(
        isinstance(block, Opaque) or (isinstance(block, Text) and block.details) for block in reply.content
    ):
        content["blocks"] = [_stored(block) for block in reply.content]
    return content


def thought_blocks(card: Card) -> list[Block]:
    """The blocks of a thought card; its calls have the ids that the turn gave them."""
    calls = [
        ToolUse(call["id"], call["name"], call["arguments"], call.get("details") or {})
        for call in card.tool_calls
    ]
    stored = card.content.get("blocks")
    if not stored:
        return [*_text(str(card.content.get("text", ""))), *calls]
    left = iter(calls)
    blocks: list[Block] = []
    for each in stored:
        if each["type"] == "opaque":
            blocks.append(Opaque(each["data"]))
        elif each["type"] == "text":
            blocks.extend([Text(each["text"], each.get("details") or {})] if each["text"] else [])
        else:
            blocks.extend([use] if (use := next(left, None)) is not None else [])
    return blocks


def result_text(content: Mapping[str, Any]) -> str:
    """A tool's result as the model reads it; a call that failed may have a result in part."""
    result = content.get("result")
    if content.get("error") is not None:
        told = {"status": content["status"], "error": content["error"]}
        return codec.encode(told if result is None else {**told, "result": result})
    return result if isinstance(result, str) else codec.encode(result)


def last_thought(cards: Iterable[Card], turn_id: str) -> str:
    """The last text of a turn's model."""
    texts = [
        str(card.content.get("text", ""))
        for card in cards
        if card.type == "agent.thought" and card.agent_turn_id == turn_id
    ]
    return next((text for text in reversed(texts) if text), "")


def _say(said: list[tuple[Role, list[Block]]], role: Role, blocks: Sequence[Block]) -> None:
    if not blocks:
        return
    if said and said[-1][0] == role:
        said[-1][1].extend(blocks)
    else:
        said.append((role, list(blocks)))


def _result(tool_call_id: str, results: Mapping[str, Card], edit: str = "") -> ToolResult:
    card = results.get(tool_call_id)
    if card is None:
        return ToolResult(tool_call_id, _NO_RESULT, is_error=True)
    said = result_text(card.content)
    return ToolResult(
        tool_call_id,
        f"{edit}\n{said}" if edit else said,
        is_error=card.content.get("status") != "success",
        files=tuple(files_of(card.content)),
    )


def _given(card: Card, rewriting: Card | None) -> list[Block]:
    """What a card says, with its files; what a check rewrote has its text from there, and what it refused no files."""
    parts = parts_of(card.content)
    if rewriting is not None:
        files = [] if rewriting.metadata.get("refused") else files_of(card.content)
        return [*_text(str(rewriting.content["text"]) or _words(card)), *files]
    if not parts:
        return _text(_words(card))
    return [block for part in parts for block in (_text(part) if isinstance(part, str) else [part])]


def _words(card: Card) -> str:
    content = card.content
    if "text" in content:
        return str(content["text"])
    if card.type == "task.result_fields" and "type" in content:
        return (
            f"The result must be one that fits the schema of submit_result ({content['type'].get('name')})."
        )
    if card.type == "task.result_fields":
        fields = ", ".join(str(each.get("name")) for each in content.get("fields", []))
        return f"The result must have these fields: {fields}."
    return codec.encode(content.get("data"))


def _text(words: str) -> list[Block]:
    return [Text(words)] if words else []


def _stored(block: Block) -> dict[str, Any]:
    match block:
        case Opaque(data):
            return {"type": "opaque", "data": dict(data)}
        case Text(text, details):
            said = {"type": "text", "text": text}
            return {**said, "details": dict(details)} if details else said
        case _:
            return {"type": "tool_use"}
