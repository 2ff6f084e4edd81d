"""The same of every provider: the real client libraries against servers that speak the real wire formats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.models.conftest import Opened

from afl.devstack.chat_api import ChatApi
from afl.devstack.model_server import Fault, Said, says, uses
from afl.models import (
    Message,
    ModelRejected,
    ModelSettings,
    ModelUnavailable,
    Opaque,
    Question,
    Request,
    Tool,
    ToolResult,
    Usage,
    ask,
)
from afl.models.errors import RequestTooLong

SIZE = Tool("Size", "How large it is.", {"type": "object", "properties": {"meters": {"type": "integer"}}})
HELLO = Request((Message.user("Hello"),), system="Be exact.", tools=(SIZE,))
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "signed"}


def with_settings(**settings: Any) -> Request:
    return replace(HELLO, settings=ModelSettings(**settings))


TWO_CALLS = [
    {"type": "text", "text": "I look at both of them."},
    {"type": "tool_use", "id": "a", "name": "Size", "input": {"meters": 1}},
    {"type": "tool_use", "id": "b", "name": "Size", "input": {"meters": 2}},
]


@pytest.mark.parametrize("streaming", [False, True])
def test_words(opened: Opened, streaming: bool) -> None:
    model, api = opened(says("A whale is twelve meters long.", usage={"input_tokens": 7, "output_tokens": 3}))
    received: list[str] = []
    reply = model.complete(HELLO, received.append if streaming else None)
    assert (reply.text, reply.stop_reason) == ("A whale is twelve meters long.", "end_turn")
    assert (reply.usage, reply.model) == (Usage(7, 3), model.name)
    assert "".join(received) == (reply.text if streaming else "")
    assert len(received) > 1 or not streaming
    assert "Be exact." in str(api.requests[0])


@pytest.mark.parametrize("streaming", [False, True])
def test_parallel_calls_and_their_results(opened: Opened, streaming: bool) -> None:
    model, api = opened(Said(TWO_CALLS, "tool_use"), "Twelve.")
    listen = (lambda text: None) if streaming else None
    reply = model.complete(HELLO, listen)
    assert reply.stop_reason == "tool_use"
    assert [(use.id, dict(use.input)) for use in reply.tool_uses] == [
        ("a", {"meters": 1}),
        ("b", {"meters": 2}),
    ]
    results = Message.user(ToolResult("a", "one"), ToolResult("b", "broken", is_error=True))
    again = Request((*HELLO.messages, reply.as_message(), results), tools=(SIZE,))
    assert model.complete(again, listen).text == "Twelve."
    assert api.faults == 0  # each call had its result: the server looks
    assert "broken" in str(api.requests[1])


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("wire", ["messages", "responses"], indirect=True)
def test_signed_thinking_goes_back_as_it_came(opened: Opened, wire: str, streaming: bool) -> None:
    model, api = opened(Said([THOUGHT, *TWO_CALLS], "tool_use"), "Twelve.")
    reply = model.complete(HELLO, (lambda text: None) if streaming else None)
    assert isinstance(reply.content[0], Opaque)
    results = Message.user(ToolResult("a", "1"), ToolResult("b", "2"))
    model.complete(Request((*HELLO.messages, reply.as_message(), results), tools=(SIZE,)))
    sent = api.requests[1]["messages"][1]["content"] if wire == "messages" else api.requests[1]["input"][1:]
    if wire == "messages":
        assert sent == [THOUGHT, *TWO_CALLS]
    else:
        assert sent[0]["encrypted_content"] == "signed"
        assert [item["type"] for item in sent[:4]] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert all(item["id"] for item in sent[:4])  # reasoning is refused without the items that followed it


@pytest.mark.parametrize("wire", ["chat", "responses"], indirect=True)
def test_arguments_that_are_no_json_go_back_to_the_model(opened: Opened) -> None:
    bad = Said([{"type": "tool_use", "id": "a", "name": "Size", "input": "{meters: "}], "tool_use")
    model, api = opened(bad, uses("Size", {"meters": 3}))
    question = Question("How large?", SIZE, check=lambda given: None if "meters" in given else "no meters")
    assert ask(model, question).value == {"meters": 3}
    assert "the arguments of Size are not a JSON object" in str(api.requests[1])


@pytest.mark.parametrize("wire", ["messages", "chat"], indirect=True)
def test_a_call_without_a_name_has_one_that_can_be_sent_back(opened: Opened) -> None:
    model, _ = opened(uses("", {}))
    (use,) = model.complete(HELLO).tool_uses
    assert use.name == "unnamed"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_refusal(opened: Opened, wire: str, streaming: bool) -> None:
    told = {"type": "text" if wire == "messages" else "refusal", "text": "I will not."}
    model, _ = opened(Said([told], "refusal"))
    reply = model.complete(HELLO, (lambda text: None) if streaming else None)
    assert reply.stop_reason == "refusal"
    assert reply.text == "I will not."


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("wire", ["gemini"], indirect=True)
def test_a_blocked_prompt_is_a_refusal(opened: Opened, streaming: bool) -> None:
    model, _ = opened(Said([], "refusal"))
    reply = model.complete(HELLO, (lambda text: None) if streaming else None)
    assert (reply.stop_reason, reply.text) == ("refusal", "")


@pytest.mark.parametrize("streaming", [False, True])
def test_a_reply_at_its_limit(opened: Opened, streaming: bool) -> None:
    model, _ = opened(says("A whale is", stop_reason="max_tokens"))
    reply = model.complete(HELLO, (lambda text: None) if streaming else None)
    assert reply.stop_reason == "max_tokens"


@pytest.mark.parametrize("streaming", [False, True])
def test_a_busy_server_is_asked_again_when_it_says(
    opened: Opened, streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    async def sleep(seconds: float, *result: Any) -> None:
        waits.append(seconds)

    monkeypatch.setattr("anyio.sleep", sleep)
    model, api = opened(Fault(429, retry_after=17), Fault(503, retry_after=4), "At last.")
    assert model.complete(HELLO, (lambda text: None) if streaming else None).text == "At last."
    assert ([wait for wait in waits if wait >= 1], len(api.requests)) == ([17, 4], 3)


@pytest.mark.parametrize("wire", ["gemini"], indirect=True)
def test_it_is_not_asked_again_when_its_time_is_over_by_then(opened: Opened) -> None:
    model, api = opened(Fault(429, "slow down", retry_after=30))
    with pytest.raises(ModelUnavailable, match="slow down"):
        model.complete(with_settings(timeout=20))
    assert len(api.requests) == 1


def test_without_retries_it_is_not_available_and_says_when(opened: Opened) -> None:
    model, api = opened(Fault(429, "slow down", retry_after=30))
    with pytest.raises(ModelUnavailable, match=r"is not available \(429\): slow down") as failed:
        model.complete(with_settings(max_retries=0))
    assert (failed.value.retry_after, len(api.requests)) == (30, 1)


@pytest.mark.parametrize(
    ("by", "said"),
    [("error", "broke off: oh"), ("garbage", "cannot be read"), ("cut", "cannot be reached: .*closed")],
)
def test_a_stream_that_breaks_off(opened: Opened, by: Any, said: str) -> None:
    model, api = opened(Fault(500, "oh", broken_off="A whale is about twelve meters", by=by))
    received: list[str] = []
    with pytest.raises(ModelUnavailable, match=said):
        model.complete(HELLO, received.append)
    assert received and "A whale is about twelve meters".startswith("".join(received))
    assert len(api.requests) == 1  # words of it were shown


@pytest.mark.parametrize("by", ["error", "garbage", "cut", "end"])
def test_a_stream_that_breaks_off_unseen_is_asked_for_again(
    opened: Opened, by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float, *result: Any) -> None:
        pass

    monkeypatch.setattr("anyio.sleep", sleep)
    model, api = opened(
        Fault(500, "oh", broken_off="A whale is about twelve meters", by=by), "Twelve meters."
    )
    reply = model.complete(replace(HELLO, max_tokens=20_000))
    assert (reply.text, len(api.requests)) == ("Twelve meters.", 2)

    model, api = opened(Fault(500, "oh", broken_off="A whale is about twelve meters", by=by))
    with pytest.raises(ModelUnavailable):
        model.complete(replace(HELLO, max_tokens=20_000, settings=ModelSettings(max_retries=0)))
    assert len(api.requests) == 1


@pytest.mark.parametrize("by", ["error", "end"])
def test_a_stream_that_breaks_off_before_its_first_event_is_asked_for_again(
    opened: Opened, by: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def sleep(seconds: float, *result: Any) -> None:
        pass

    monkeypatch.setattr("anyio.sleep", sleep)
    monkeypatch.setattr("afl.devstack.model_server._BEFORE_THE_END", 0)
    fault, heard = Fault(529, "overloaded", broken_off="unsaid", by=by), list[str]()
    model, api = opened(fault, "Twelve meters.")
    assert model.complete(HELLO, heard.append).text == "".join(heard) == "Twelve meters."

    model, api = opened(*[fault] * 3)
    with pytest.raises(ModelUnavailable) as failed:
        model.complete(with_settings(max_retries=2), heard.append)
    assert (len(api.requests), failed.value.broke_off) == (3, False)


@pytest.mark.parametrize("wire", ["messages", "chat"], indirect=True)
def test_a_stream_may_end_for_a_reason_of_its_own(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.devstack.chat_api._FINISH", {"eos_token": "eos_token"})
    model, api = opened(says("Twelve meters.", stop_reason="eos_token"))
    assert model.complete(HELLO, lambda text: None).text == "Twelve meters."
    assert len(api.requests) == 1


def test_a_stream_that_ends_early(opened: Opened) -> None:
    model, _ = opened(Fault(500, broken_off="A whale is about twelve meters", by="end"))
    with pytest.raises(ModelUnavailable, match="broke off: the stream ended early"):
        model.complete(HELLO, lambda text: None)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(401, "bad key"), r"does not accept the key \(401\): bad key"),
        (Fault(404, "which?"), r"there is no model '.+' \(404\): which\?"),
        (Fault(400, "too long"), r"refused the request \(400\): too long"),
    ],
)
def test_what_will_not_do_is_rejected(opened: Opened, fault: Fault, said: str) -> None:
    model, api = opened(fault)
    with pytest.raises(ModelRejected, match=said):
        model.complete(HELLO)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "This model's maximum context length is 8192 tokens.",
        "The input token count (1048577) exceeds the maximum number of tokens allowed",
    ],
)
def test_a_request_that_is_too_long_has_an_error_of_its_own(opened: Opened, said: str) -> None:
    model, _ = opened(Fault(400, said))
    with pytest.raises(RequestTooLong, match=r"refused the request \(400\): "):
        model.complete(HELLO)


@pytest.mark.parametrize("wire", ["messages", "chat"], indirect=True)
def test_an_error_says_when_to_try_again(opened: Opened) -> None:
    model, _ = opened(Fault(429, "slow down", retry_after=3600))
    with pytest.raises(ModelUnavailable, match=r"\(429\): slow down; try again in 3600 seconds") as refused:
        model.complete(with_settings(max_retries=0))
    assert refused.value.retry_after == 3600


@pytest.mark.parametrize("wire", ["messages", "chat"], indirect=True)
def test_settings_are_sent(opened: Opened, wire: str) -> None:
    model, api = opened("Yes.", "No.")
    model.complete(
        with_settings(temperature=0.25, top_p=0.5, tool_choice="required", parallel_tool_calls=False)
    )
    model.complete(replace(HELLO, max_tokens=77))
    first, second = api.requests
    limit = "max_tokens" if wire == "messages" else "max_completion_tokens"
    assert (first[limit], second[limit]) == (4096, 77)
    assert (first["temperature"], first["top_p"]) == (0.25, 0.5)
    assert "temperature" not in second
    forced = {"messages": {"type": "any", "disable_parallel_tool_use": True}, "chat": "required"}
    assert first["tool_choice"] == forced[wire]


@pytest.mark.parametrize("wire", ["messages", "responses"], indirect=True)
def test_thinking_is_asked_for(opened: Opened, wire: str) -> None:
    model, api = opened("Yes.")
    model.complete(with_settings(thinking="high"))
    asked = api.requests[0]["thinking"] if wire == "messages" else api.requests[0]["reasoning"]
    assert asked.get("type") == "enabled" or asked == {"effort": "high"}


@pytest.mark.parametrize("streaming", [False, True])
def test_the_second_model_answers_for_the_first(
    opened: Opened, spare_server: ChatApi, streaming: bool
) -> None:
    name = f"{spare_server.url}/v1#spare"
    spare_server.begin(["I am the spare."])
    model, first = opened(Fault(503, "away"))
    listen = (lambda text: None) if streaming else None
    reply = model.complete(with_settings(max_retries=0, fallback=(name,)), listen)
    assert (reply.text, reply.model) == ("I am the spare.", name)
    assert (len(first.requests), len(spare_server.requests)) == (1, 1)


def test_when_no_model_answers_each_reason_is_told(opened: Opened, spare_server: ChatApi) -> None:
    spare_server.begin([Fault(429, "slow down", retry_after=9)])
    model, _ = opened(Fault(400, "too long"))
    asked = with_settings(max_retries=0, fallback=(f"{spare_server.url}/v1#spare",))
    told = r"\(400\): too long; spare is not available \(429\): slow down"
    with pytest.raises(ModelUnavailable, match=told) as failed:
        model.complete(asked)
    assert failed.value.retry_after == 9


def test_a_call_has_no_more_time_than_it_is_given(opened: Opened) -> None:
    model, _ = opened("Late.")
    with pytest.raises(ModelUnavailable, match="did not answer in 1e-09 seconds"):
        model.complete(with_settings(timeout=1e-9))


def test_an_interrupt_of_the_listener_ends_the_call(opened: Opened) -> None:
    model, _ = opened("Some words.", "More words.")

    def interrupt(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.complete(HELLO, interrupt)
    assert model.complete(HELLO).text == "More words."
