"""What a tool call came to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, RootModel

from afl.turns.tools.outcome import checked, failed, outcome_of


@dataclass
class Place:
    name: str


def test_an_answer_is_plain_data() -> None:
    outcome = outcome_of([Place("Oslo")], tool="find", after_execution="terminate")
    assert outcome.content() == {
        "__type__": "ToolResultContent",
        "status": "success",
        "after_execution": "terminate",
        "result": [{"name": "Oslo"}],
        "error": None,
    }


class Person(BaseModel):
    name: str
    born: date | None = None


@pytest.mark.parametrize(
    ("answer", "plain"),
    [
        (Person(name="Ada"), {"name": "Ada", "born": None}),
        ([Person(name="Ada", born=date(1815, 12, 10))], [{"name": "Ada", "born": "1815-12-10"}]),
        ({"by": {1: Person(name="Ada")}}, {"by": {"1": {"name": "Ada", "born": None}}}),
        ([Place("Oslo"), RootModel[list[int]]([1, 2])], [{"name": "Oslo"}, [1, 2]]),
    ],
)
def test_models_are_data_wherever_they_are(answer: Any, plain: Any) -> None:
    assert outcome_of(answer, tool="find").result == plain


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append({"again": value})
    return value


@pytest.mark.parametrize(
    "answer",
    [
        object(),
        [object()],
        math.nan,
        {"deep": {math.inf}},
        cyclic(),
        nested(3000),
        nested(990),
        Person,
        {1: "a", "1": "b"},
    ],
)
def test_an_answer_that_is_no_json_is_a_failure(answer: Any) -> None:
    outcome = outcome_of(answer, tool="find")
    assert not outcome.succeeded
    assert outcome.error is not None and outcome.error["code"] == "result_not_serializable"
    assert outcome.error["message"].startswith("what find gave is not plain JSON data: ")


def test_an_answer_may_have_a_hundred_levels() -> None:
    assert outcome_of(nested(100), tool="find").succeeded


def test_a_failure_has_a_code_and_a_message() -> None:
    assert failed("gone", "it is gone", status="timeout").content() == {
        "__type__": "ToolResultContent",
        "status": "timeout",
        "after_execution": "suspend",
        "result": None,
        "error": {"code": "gone", "message": "it is gone"},
    }


@pytest.mark.parametrize(
    ("status", "error", "after", "code"),
    [
        ("fine", None, "suspend", "invalid_status"),
        ("success", {"code": "x", "message": "y"}, "suspend", "error_with_success"),
        ("success", None, "later", "invalid_after_execution"),
        (["success"], None, "suspend", "invalid_status"),
        ("success", None, {"then": "suspend"}, "invalid_after_execution"),
        ("failed", "just text", "suspend", "failed"),
        ("failed", {"code": "x", "message": "y"}, "suspend", "x"),
    ],
)
def test_what_others_say_holds_together(status: Any, error: Any, after: Any, code: str) -> None:
    outcome = checked(status, 1, error, after)
    assert outcome.status == "failed"
    assert outcome.error is not None and outcome.error["code"] == code


def test_a_success_of_others_stays_one() -> None:
    assert checked("success", {"a": 1}, None, "terminate").content()["result"] == {"a": 1}
