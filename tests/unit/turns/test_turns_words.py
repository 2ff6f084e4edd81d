"""Subjects, headers, contexts and cards: what can be said, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.turns.cardbox.cards import Card, NewCard, check_card, text, tool_result_content
from afl.turns.context import TurnContext, context_of_headers
from afl.turns.errors import CardError, ErrorCode, ProtocolViolation, SubjectError
from afl.turns.model import Limits
from afl.turns.protocol.headers import IDENTITY_FIELDS, without_identity
from afl.turns.protocol.ids import new_id, new_span, new_trace
from afl.turns.protocol.payloads import check_command_payload, check_stop
from afl.turns.protocol.subjects import (
    check_command,
    check_target,
    matches,
    parse_subject,
    tool_subject,
    wakeup_subject,
)
from afl.turns.statuses import CardType

TOKEN = st.text("abcdefghij0123456789_-", min_size=1, max_size=8)


@given(
    TOKEN,
    TOKEN,
    st.sampled_from(["cmd", "evt", "str"]),
    TOKEN,
    TOKEN,
    st.lists(TOKEN, min_size=1, max_size=3),
)
def test_a_subject_is_its_parts(
    project: str, channel: str, category: str, kind: str, target: str, rest: list[str]
) -> None:
    written = ".".join(["cg.v1r4", project, channel, category, kind, target, *rest])
    parsed = parse_subject(written)
    assert (parsed.project_id, parsed.channel_id, parsed.suffix) == (project, channel, ".".join(rest))
    assert str(parsed) == written
    assert matches(f"cg.v1r4.*.*.{category}.*.*.>", written)
    assert matches(written, written)
    assert not matches(f"{written}.more", written)


@pytest.mark.parametrize(
    "subject",
    [
        "",
        "cg.v1r4.p.c.cmd.tool",
        "cg.v1.p.c.cmd.tool.x.y",
        "cg.v1r4.p.c.say.tool.x.y",
        "cg.v1r4..c.cmd.tool.x.y",
    ],
)
def test_what_is_no_subject_is_refused(subject: str) -> None:
    with pytest.raises(SubjectError):
        parse_subject(subject)


def test_patterns() -> None:
    wakeup = wakeup_subject("p", "c", "generic")
    assert parse_subject(wakeup).is_wakeup
    assert matches("cg.v1r4.*.*.cmd.agent.generic.wakeup", wakeup)
    assert not matches("cg.v1r4.*.*.cmd.agent.other.wakeup", wakeup)
    assert not matches("cg.v1r4.p.c.cmd.agent.generic.wakeup.>", wakeup)
    assert not matches("cg.v1r4.*", wakeup)


def test_the_subject_of_a_tool_is_filled_in_and_checked() -> None:
    template = "cg.v1r4.{project_id}.{channel_id}.cmd.tool.{agent_id}.run"
    assert tool_subject(template, "p", "c", "ada") == "cg.v1r4.p.c.cmd.tool.ada.run"
    with pytest.raises(SubjectError, match="expected project"):
        check_command("cg.v1r4.q.c.cmd.tool.x.run", "p", "c")
    with pytest.raises(SubjectError, match="small letters"):
        check_target("Generic Workers")


def test_a_context_travels_in_its_headers() -> None:
    context = TurnContext("p", "c", "ada", "turn_1", 3, 2, "step_1", "call_1", "bob", "turn_0", "step_0")
    assert context_of_headers(context.headers()) == context
    plain = context.headers(topology=False)
    assert not {"CG-Recursion-Depth", "CG-Step-Id", "CG-Parent-Turn-Id"} & plain.keys()
    with pytest.raises(ProtocolViolation, match="CG-Recursion-Depth is missing"):
        context_of_headers(plain)
    with pytest.raises(ProtocolViolation, match="different projects"):
        context_of_headers(context.headers(), subject="cg.v1r4.q.c.cmd.tool.x.y")
    with pytest.raises(ProtocolViolation, match="whole number"):
        context_of_headers(context.headers() | {"CG-Turn-Epoch": "many"})


@pytest.mark.parametrize("value", ["a\0b", "a\nb", "x" * 513])
@pytest.mark.parametrize(
    "name", ["CG-Agent-Id", "CG-Turn-Id", "CG-Step-Id", "CG-Tool-Call-Id", "CG-Parent-Turn-Id"]
)
def test_an_id_in_a_header_has_bounds(name: str, value: str) -> None:
    with pytest.raises(ProtocolViolation, match=f"header {name} is"):
        context_of_headers(TurnContext("p", "c", "ada").headers() | {"CG-Recursion-Depth": "0", name: value})


@pytest.mark.parametrize("number", ["-1", "1.5", "9" * 5_000, str(2**31), "²"])
def test_a_number_in_a_header_has_bounds(number: str) -> None:
    with pytest.raises(ProtocolViolation, match="from 0 to 2147483647"):
        context_of_headers(TurnContext("p", "c", "ada").headers() | {"CG-Recursion-Depth": number})


@pytest.mark.parametrize("value", ["a\0b", "x" * 100_000])
def test_an_id_in_a_payload_has_bounds(value: str) -> None:
    with pytest.raises(ProtocolViolation, match=r"payload\.tool_call_card_id must"):
        check_command_payload({"tool_name": "t", "after_execution": "suspend", "tool_call_card_id": value})
    with pytest.raises(ProtocolViolation, match=r"payload\.reason must"):
        check_stop({"reason": value})


@pytest.mark.parametrize("trace", ["", "00-abc-def-01", "x" * 55])
def test_a_trace_is_a_trace(trace: str) -> None:
    with pytest.raises(ProtocolViolation, match="traceparent"):
        TurnContext("p", "c", "ada", traceparent=trace)


def test_spans_of_one_trace() -> None:
    trace = new_trace()
    span = new_span(trace)
    assert span != trace and span.split("-")[1] == trace.split("-")[1]
    assert new_id("turn") < new_id("turn")


@pytest.mark.parametrize("name", sorted(IDENTITY_FIELDS))
def test_identity_in_a_payload_must_agree(name: str) -> None:
    context = TurnContext(
        "p", "c", "ada", "turn_1", 3, 2, "step_1", "call_1", "bob", "turn_0", "step_0", tracestate="s"
    )
    headers = context.headers() | {"CG-Parent-Traceparent": "x"}
    header = IDENTITY_FIELDS[name]
    known = headers[header] if header else context.trace_id
    assert without_identity({name: known, "a": 1}, headers, "test") == {"a": 1}
    with pytest.raises(ProtocolViolation) as refused:
        without_identity({name: "something else"}, headers, "test")
    assert refused.value.code is ErrorCode.FORBIDDEN_FIELD


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (tool_result_content("success", "suspend", {"a": 1}), "suspend"),
        (tool_result_content("success", "terminate"), "terminate"),
        (
            tool_result_content("success", "suspend", {"__cg_control": {"after_execution": "terminate"}}),
            "terminate",
        ),
        (
            tool_result_content("success", "terminate", {"__cg_control": {"after_execution": "suspend"}}),
            "suspend",
        ),
        (tool_result_content("success", "suspend", {"__cg_control": {"after_execution": "fly"}}), "suspend"),
        (tool_result_content("success", "suspend", {"__cg_control": "no map"}), "suspend"),
        (
            tool_result_content("success", "terminate", {"__cg_control": {"after_execution": ["x"]}}),
            "terminate",
        ),
        (
            tool_result_content("success", "suspend", {"__cg_control": {"after_execution": {"a": 1}}}),
            "suspend",
        ),
    ],
)
def test_what_a_result_asks_for(content: dict[str, object], wanted: str) -> None:
    card = Card(CardType.TOOL_RESULT, content, "tool.x", tool_call_id="c", function_name="f")
    assert card.after_execution == wanted


BAD_CARDS = {
    "no author": replace(NewCard("agent.thought", text("x"), "ada"), author_id=""),
    "content of no kind": NewCard("agent.thought", {"text": "x"}, "ada"),
    "text that is none": NewCard("agent.thought", {"__type__": "TextContent", "text": 5}, "ada"),
    "a call without its id": NewCard("tool.call", {"__type__": "ToolCallContent", "tool_name": "x"}, "ada"),
    "a failure without error": NewCard(
        "tool.result", tool_result_content("failed"), "tool.x", tool_call_id="c", function_name="f"
    ),
    "a result of no status": NewCard(
        "tool.result", tool_result_content("fine"), "tool.x", tool_call_id="c", function_name="f"
    ),
    "a result whose status is a list": NewCard(
        "tool.result",
        {**tool_result_content("success"), "status": ["success"]},
        "tool.x",
        tool_call_id="c",
        function_name="f",
    ),
    "a result whose after_execution is a map": NewCard(
        "tool.result",
        {**tool_result_content("success"), "after_execution": {"then": "suspend"}},
        "tool.x",
        tool_call_id="c",
        function_name="f",
    ),
    "a result as text": NewCard("tool.result", text("x"), "tool.x", tool_call_id="c", function_name="f"),
    "data that is no JSON": NewCard(
        "agent.thought", {"__type__": "JsonContent", "data": float("nan")}, "ada"
    ),
}


@pytest.mark.parametrize("case", BAD_CARDS)
def test_bad_cards_are_refused(case: str) -> None:
    with pytest.raises(CardError) as refused:
        check_card(BAD_CARDS[case], Limits())
    assert refused.value.code is ErrorCode.MALFORMED_CARD
