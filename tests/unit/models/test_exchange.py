"""What is kept of a call to a model: what was new in the prompt, and the reply; bounded, without secrets."""

from __future__ import annotations

import afl
from afl.models.exchange import LONGEST_TEXT, MOST_PARTS, Exchange, Part
from afl.models.messages import Message, Opaque, Reply, Request, Text, ToolResult, ToolUse


def test_the_first_call_has_the_system_prompt_and_later_ones_what_is_new() -> None:
    use = ToolUse("1", "look_up", {"word": "Haus"})
    first = Request((Message.user("Translate Haus."),), system="You translate.")
    asked = Exchange.of(first, Reply((Text("Let me see."), use)))
    assert asked.prompt == [Part("system", "You translate.", "", 14), Part("text", "Translate Haus.", "", 15)]
    assert asked.reply == [
        Part("text", "Let me see.", "", 11),
        Part("tool-call", '{"word":"Haus"}', "look_up", 15),
    ]
    second = Request(
        (*first.messages, Message("assistant", (use,)), Message.user(ToolResult("1", "house"), "Go on.")),
        system="You translate.",
    )
    assert [part.kind for part in Exchange.of(second, Reply((Text("house"),))).prompt] == [
        "tool-result",
        "text",
    ]


def test_errors_of_tools_and_blocks_of_the_model_alone_are_told_apart() -> None:
    request = Request((Message.user(ToolResult("1", "no such word", is_error=True)),))
    found = Exchange.of(request, Reply((Opaque({"type": "thinking", "signature": "xyz"}),)))
    assert found.prompt == [Part("tool-error", "no such word", "", 12)]
    assert found.reply[0].kind == "other" and "thinking" in found.reply[0].text


def test_long_ones_are_cut_and_secrets_are_masked() -> None:
    afl.redact("hush-hush-1234")
    request = Request((Message.user("x" * 100_000), Message.user(*["y"] * 500)), system="key hush-hush-1234")
    found = Exchange.of(request, Reply(()))
    assert len(found.prompt) == MOST_PARTS
    assert "hush" not in found.prompt[0].text
    assert (len(found.prompt[1].text), found.prompt[1].length) == (LONGEST_TEXT, 100_000)


def test_it_comes_back_as_it_was_stored() -> None:
    found = Exchange.of(Request((Message.user("☂ <b>"),)), Reply((Text("\x00 "),)))
    assert Exchange.decode(found.encode()) == found
