"""Responses and results of Pydantic AI as JSON: a run that is replayed gets what the first one got."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic_ai import BinaryContent, ModelRetry, ToolReturn
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from afl.turns.served import codec
from afl.turns.tools.outcome import failed


@dataclass
class Point:
    x: int
    on: date


def replayed(result: Any) -> Any:
    value, more = codec.result_data(result)
    content = {"error": None, "result": value, codec.STORED: more}
    return codec.result_of(json.loads(json.dumps(content)))


@pytest.mark.parametrize("value", [None, 3, "text", [1, {"a": True}], {"kind": "tool-return"}])
def test_plain_results(value: Any) -> None:
    assert replayed(value) == value


def test_other_results() -> None:
    assert replayed(Point(1, date(2026, 1, 2))) == {"x": 1, "on": "2026-01-02"}
    picture = BinaryContent(b"\x89PNG", media_type="image/png")
    (again,) = replayed([picture])
    assert isinstance(again, BinaryContent) and (again.data, again.media_type) == (b"\x89PNG", "image/png")
    whole = ToolReturn({"a": 1}, content=["look"], metadata={"b": 2})
    assert replayed(whole) == whole


def test_what_a_tool_raises_for_its_model() -> None:
    with pytest.raises(ModelRetry, match="again"):
        codec.result_of(failed(codec.RETRY, "again").content())
    with pytest.raises(ToolFailed, match="gone"):
        codec.result_of(failed(codec.FAILED, "gone").content())


def test_responses() -> None:
    parts = [ThinkingPart("hm", signature="s"), TextPart("a"), ToolCallPart("t", '{"x": 1}', "same")]
    given = codec.with_ids(ModelResponse([*parts, ToolCallPart("u", {}, "same")]), ["call_1", "call_2"])
    assert [call.tool_call_id for call in given.tool_calls] == ["call_1", "call_2"]
    assert codec.response_of(json.loads(json.dumps(codec.response_data(given)))) == given
