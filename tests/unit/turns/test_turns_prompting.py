"""From cards to messages and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.codec import decode
from afl.models import Opaque, Reply, Text, ToolResult, ToolUse
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import Card
from afl.turns.cardbox.deliverable import answer_content
from afl.turns.worker.conversation import (
    conversation,
    last_thought,
    messages,
    thought_blocks,
    thought_content,
)

TURN = "turn_1"


def card(type: str, content: Any, **more: Any) -> Card:
    given = content if isinstance(content, dict) else contents.text(content)
    return Card(**({"type": type, "content": given, "author_id": "a", "agent_turn_id": TURN} | more))


def thought(text: str, *calls: str, turn: str = TURN) -> Card:
    made = [{"id": call, "name": "tool", "arguments": {"n": 1}} for call in calls]
    return card("agent.thought", text, tool_calls=made, agent_turn_id=turn, role="assistant")


def result(call: str, value: Any = 1, status: str = "success") -> Card:
    error = None if status == "success" else {"code": "c", "message": "m"}
    content = contents.tool_result_content(status, "suspend", value, error)
    return card("tool.result", content, tool_call_id=call)


ASK = card("task.instruction", "do it", agent_turn_id="", role="user")


def test_a_step_with_tools() -> None:
    said = messages([ASK, thought("hm", "c1", "c2"), result("c2", "two"), result("c1", {"x": 1})])
    assert [message.role for message in said] == ["user", "assistant", "user"]
    assert said[1].content == (Text("hm"), ToolUse("c1", "tool", {"n": 1}), ToolUse("c2", "tool", {"n": 1}))
    assert said[2].content == (ToolResult("c1", '{"x":1}'), ToolResult("c2", "two"))


def test_a_failed_tool_is_told_as_an_error() -> None:
    (_, _, told) = messages([ASK, thought("", "c1"), result("c1", None, "timeout")])
    (answer,) = told.content
    assert isinstance(answer, ToolResult) and answer.is_error and '"code":"c"' in answer.content


def test_a_failed_tool_tells_the_part_of_its_result_that_there_is() -> None:
    (_, _, told) = messages([ASK, thought("", "c1"), result("c1", {"done": [1]}, "partial")])
    (answer,) = told.content
    assert isinstance(answer, ToolResult) and answer.is_error
    error = {"code": "c", "message": "m"}
    assert decode(answer.content) == {"status": "partial", "error": error, "result": {"done": [1]}}


def test_a_call_that_was_never_answered_has_an_answer() -> None:
    (_, _, told) = messages([ASK, thought("", "c1"), card("task.instruction", "again", role="user")])
    assert isinstance(told.content[0], ToolResult) and told.content[0].is_error
    assert told.content[1] == Text("again")


def test_a_deliverable_is_told_once() -> None:
    spoken = [ASK, thought("done"), card("task.deliverable", answer_content("done"), role="assistant")]
    assert [message.content for message in messages(spoken)] == [(Text("do it"),), (Text("done"),)]
    foreign = [
        ASK,
        card("task.deliverable", answer_content("theirs"), agent_turn_id="turn_2", role="assistant"),
    ]
    assert messages(foreign)[1].content == (Text("theirs"),)


def test_the_user_begins() -> None:
    said = messages([thought("first")])
    assert [message.role for message in said] == ["user", "assistant"]


def test_required_fields_are_told() -> None:
    (told,) = messages([card("task.result_fields", contents.fields_schema([{"name": "title"}]))])
    assert told.content == (Text("The result must have these fields: title."),)


def test_the_order_of_a_conversation() -> None:
    before = thought("before", turn="turn_0")
    own = thought("own")
    assert conversation([before, ASK], [before, own], TURN) == [before, ASK, own]


def test_last_words() -> None:
    assert last_thought([thought("a"), thought("", "c1"), thought("z", turn="turn_9")], TURN) == "a"
    assert last_thought([], TURN) == ""


block = st.one_of(
    st.builds(Text, st.text(min_size=1)),
    st.builds(lambda n: ToolUse(f"m{n}", "tool", {"n": n}), st.integers(0, 9)),
    st.builds(Opaque, st.just({"type": "thinking", "signature": "s"})),
)


@given(st.lists(block, unique_by=id))
def test_a_reply_with_thinking_goes_back_as_it_came(blocks: list[Any]) -> None:
    reply = Reply((Opaque({"type": "thinking"}), *blocks))
    uses = [{"id": use.id, "name": use.name, "arguments": use.input} for use in reply.tool_uses]
    stored = card("agent.thought", thought_content(reply), tool_calls=uses)
    assert tuple(thought_blocks(stored)) == reply.content


kinds = st.sampled_from(["user", "thought", "call", "result", "deliverable"])


def made(kind: str, place: int) -> Card:
    match kind:
        case "user":
            return card("task.instruction", "hi", role="user")
        case "thought":
            return thought("hm")
        case "call":
            return thought("", f"c{place}")
        case "result":
            return result(f"c{place - 1}")
        case _:
            return card("task.deliverable", answer_content("x"), agent_turn_id="t")


@given(st.lists(kinds, max_size=12))
def test_any_cards_make_a_conversation_a_model_accepts(sequence: list[str]) -> None:
    said = messages([made(kind, place) for place, kind in enumerate(sequence)])
    assert [message.role for message in said] == ["user", "assistant"] * (len(said) // 2) + ["user"] * (
        len(said) % 2
    )
    for message, after in zip(said, [*said[1:], None], strict=False):
        uses = [use.id for use in message.content if isinstance(use, ToolUse)]
        if uses:
            assert after is not None
            assert {r.tool_use_id for r in after.content if isinstance(r, ToolResult)} >= set(uses)


def test_what_a_provider_wants_back_is_kept_with_text_and_calls() -> None:
    signed = {"id": "x", "provider_name": "openai"}
    said = Reply((Text("Hm.", signed), ToolUse("a", "look", {}, signed)))
    calls = [{"id": "c1", "name": "look", "arguments": {}, "details": signed}]
    text, use = thought_blocks(card("agent.thought", thought_content(said), tool_calls=calls))
    assert text == Text("Hm.", signed)
    assert use == ToolUse("c1", "look", {}, signed)
