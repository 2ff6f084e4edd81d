"""Structured answers: accepted, sent back with the reason, tools over several rounds, and where it ends."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.eventually import PATIENCE_SECONDS

from afl.kernel.errors import InputError
from afl.models import (
    Answer,
    AnswerError,
    Message,
    ModelUnavailable,
    Opaque,
    Question,
    Reply,
    Request,
    ScriptedModel,
    Text,
    Tool,
    ToolResult,
    ToolUse,
    Usage,
    ask,
    complete_async,
    tool_from,
)
from afl.models.scripted import calls, says

SIZE = Tool("Size", "How large it is.", {"type": "object", "properties": {"meters": {"type": "integer"}}})


def whole_meters(answer: dict[str, Any]) -> str | None:
    return None if isinstance(answer.get("meters"), int) else "meters must be a whole number"


def look_up(thing: str) -> str:
    """Look something up."""
    if thing == "moon":
        raise LookupError("it is not in the book")
    return f"a {thing} is 12 meters long"


def question(**options: Any) -> Question:
    return Question("How large is a whale?", SIZE, check=whole_meters, **options)


def last_said(model: ScriptedModel) -> ToolResult | Text:
    """What the model was told last."""
    said = model.requests[-1].messages[-1].content[-1]
    assert isinstance(said, ToolResult | Text)
    return said


def test_an_answer_that_fits_is_taken() -> None:
    model = ScriptedModel([calls("Size", {"meters": 12}, usage=Usage(5, 2))])
    assert ask(model, question(system="Be exact.", model="large")) == Answer(
        {"meters": 12}, "", Usage(5, 2), 1
    )
    (request,) = model.requests
    assert request == Request(
        (Message.user("How large is a whale?"),), system="Be exact.", tools=(SIZE,), model="large"
    )


def test_an_answer_that_does_not_fit_goes_back_with_the_reason() -> None:
    model = ScriptedModel([calls("Size", {"meters": "large"}), calls("Size", {"meters": 12})])
    answer = ask(model, question())
    assert (answer.value, answer.calls, answer.usage) == ({"meters": 12}, 2, Usage(20, 20))
    told = last_said(model)
    assert isinstance(told, ToolResult)
    assert told.is_error
    assert "meters must be a whole number" in told.content
    first = model.requests[1].messages[1].content[0]
    assert isinstance(first, ToolUse)
    assert told.tool_use_id == first.id


def test_after_the_last_correction_the_error_says_what_was_wrong() -> None:
    model = ScriptedModel(lambda request: calls("Size", {"meters": "large"}))
    with pytest.raises(AnswerError) as failed:
        ask(model, question(corrections=2))
    assert len(model.requests) == 3
    assert str(failed.value) == (
        "the model scripted gave no answer for Size: no fitting answer after 3 attempts; "
        "the last one: meters must be a whole number"
    )
    assert failed.value.usage == Usage(30, 30)


def test_words_without_an_answer_are_sent_back() -> None:
    model = ScriptedModel([says("About 12 meters."), calls("Size", {"meters": 12})])
    assert ask(model, question()).value == {"meters": 12}
    told = last_said(model)
    assert isinstance(told, Text)
    assert "the answer has to be given by calling the tool Size" in told.text


def test_words_will_do_where_nothing_is_asked_for() -> None:
    answer = ask(ScriptedModel([says("Done.")]), question(optional=True))
    assert (answer.value, answer.text) == ({}, "Done.")


def test_tools_are_called_over_several_rounds() -> None:
    both = Reply((ToolUse("1", "look_up", {"thing": "moon"}), ToolUse("2", "look_up", {"thing": "whale"})))
    model = ScriptedModel([both, calls("look_up", {"thing": "boat"}), calls("Size", {"meters": 12})])
    answer = ask(model, question(tools=[tool_from(look_up)]))
    assert (answer.value, answer.calls) == ({"meters": 12}, 3)
    assert [tool.name for tool in model.requests[0].tools] == ["look_up", "Size"]
    assert model.requests[1].messages[-1] == Message.user(
        ToolResult("1", "LookupError: it is not in the book", is_error=True),
        ToolResult("2", "a whale is 12 meters long"),
    )
    told = last_said(model)
    assert isinstance(told, ToolResult)
    assert told.content == "a boat is 12 meters long"


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (calls("lookup", {}), "there is no tool lookup; there are: look_up, Size"),
        (calls("look_up", {"thing": 1}), "parameter 'thing' of look_up: Expected `str`, got `int`"),
    ],
)
def test_a_wrong_call_of_a_tool_is_for_the_model_to_mend(call: Reply, told: str) -> None:
    model = ScriptedModel([call, calls("Size", {"meters": 12})])
    assert ask(model, question(tools=[tool_from(look_up)])).value == {"meters": 12}
    said = last_said(model)
    assert isinstance(said, ToolResult)
    assert said.is_error
    assert told in said.content


def test_calling_tools_for_ever_has_an_end() -> None:
    model = ScriptedModel(lambda request: calls("look_up", {"thing": "whale"}))
    with pytest.raises(AnswerError, match="no answer after 4 rounds"):
        ask(model, question(tools=[tool_from(look_up)], rounds=4))
    assert len(model.requests) == 4


def test_two_answers_at_once_are_none() -> None:
    two = Reply((ToolUse("1", "Size", {"meters": 1}), ToolUse("2", "Size", {"meters": 2})), "tool_use")
    model = ScriptedModel([two, calls("Size", {"meters": 12})])
    assert ask(model, question()).value == {"meters": 12}
    results = model.requests[1].messages[-1].content
    assert [isinstance(each, ToolResult) and each.is_error for each in results] == [True, True]
    assert "Size was called 2 times" in str(results)


@pytest.mark.parametrize(
    "cut", [Reply((ToolUse("1", "Size", {}),), "max_tokens"), Reply((Text("It is ab"),), "max_tokens")]
)
def test_an_answer_that_was_cut_off_is_asked_for_again(cut: Reply) -> None:
    model = ScriptedModel([cut, calls("Size", {"meters": 12})])
    assert ask(model, question(optional=True, max_tokens=50)).value == {"meters": 12}
    assert "cut off at 50 tokens" in str(last_said(model))


def test_a_refusal_ends_it_at_once() -> None:
    model = ScriptedModel([Reply((Text("Not this."),), "refusal", Usage(3, 4))])
    with pytest.raises(AnswerError, match=r"it refused: Not this\.") as failed:
        ask(model, question())
    assert failed.value.usage == Usage(3, 4)


def test_a_conversation_that_grew_too_long_ends() -> None:
    with pytest.raises(AnswerError, match="grew longer than it can read"):
        ask(ScriptedModel([Reply((), "model_context_window_exceeded")]), question())


def test_a_paused_turn_goes_on_as_it_was() -> None:
    thought = Opaque({"type": "thinking", "thinking": "hm", "signature": "s"})
    model = ScriptedModel([Reply((thought,), "pause_turn"), calls("Size", {"meters": 12})])
    assert ask(model, question()).value == {"meters": 12}
    assert model.requests[1].messages[-1] == Message("assistant", (thought,))


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(InputError, match="have the same name: Size, Size"):
        ask(ScriptedModel([]), question(tools=[tool_from(look_up, name="Size")]))
    with pytest.raises(InputError, match="have the same name"):
        ask(ScriptedModel([]), question(tools=[tool_from(look_up), tool_from(look_up)]))


def test_a_script_that_is_over_says_so() -> None:
    with pytest.raises(ModelUnavailable, match="no more answers"):
        ask(ScriptedModel([]), question())


def test_what_a_script_raises_is_raised() -> None:
    with pytest.raises(ModelUnavailable, match="away"):
        ask(ScriptedModel([ModelUnavailable("away")]), question())


def test_words_are_heard_while_they_come() -> None:
    received: list[str] = []
    model = ScriptedModel(["One.\nTwo.\n"])
    ask(model, question(optional=True), on_text=received.append)
    assert received == ["One.\n", "Two.\n"]


def test_asyncio_has_the_same_model() -> None:
    received: list[str] = []
    request = Request((Message.user("Hello"),))
    reply = asyncio.run(complete_async(ScriptedModel(["Good day"]), request, received.append))
    assert (reply.text, reply.model, received) == ("Good day", "scripted", ["Good day"])
    assert asyncio.run(complete_async(ScriptedModel(["Good day"]), request)).text == "Good day"


def test_a_model_that_stops_an_iteration_has_failed() -> None:
    def stop(request: Request) -> str:
        return next(iter(()))

    async def work() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await complete_async(ScriptedModel(stop), Request((Message.user("Hello"),)))

    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(work())
