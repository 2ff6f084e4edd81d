"""submit_result against the fields that were asked for."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.turns.tools.submit import Field, accepted_fields, required_fields, submit_tool

ASKED = [Field("title", "a short one"), Field("body")]


def test_the_schema_names_the_fields() -> None:
    tool = submit_tool(ASKED)
    assert tool.name == "submit_result"
    assert "title: a short one; body" in tool.description
    assert tool.input_schema["required"] == ["result"]
    assert "Required" not in submit_tool([]).description


def test_the_fields_of_a_card() -> None:
    assert (
        required_fields({"fields": [{"name": "title", "description": "a short one"}, {"name": "body"}]})
        == ASKED
    )


@pytest.mark.parametrize(
    "content", ["x", {}, {"fields": {}}, {"fields": [{"description": "d"}]}, {"fields": ["a"]}]
)
def test_a_card_that_cannot_be_read(content: Any) -> None:
    with pytest.raises(InputError, match=r"task\.result_fields"):
        required_fields(content)


@pytest.mark.parametrize(
    "result",
    [
        {
            "fields": [
                {"name": "extra", "value": 1},
                {"name": "body", "value": "b"},
                {"name": "title", "value": "t"},
            ]
        },
        [{"name": "extra", "value": 1}, {"name": "body", "value": "b"}, {"name": "title", "value": "t"}],
        {"extra": 1, "body": "b", "title": "t"},
        {"fields": {"extra": 1, "body": "b", "title": "t"}},
    ],
)
def test_what_was_asked_for_comes_first(result: Any) -> None:
    assert accepted_fields({"result": result}, ASKED) == [
        {"name": "title", "value": "t"},
        {"name": "body", "value": "b"},
        {"name": "extra", "value": "1"},
    ]


def test_without_required_fields_anything_will_do() -> None:
    assert accepted_fields({"result": "done"}, []) == [{"name": "result", "value": "done"}]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "needs the argument"),
        ({"result": {"title": "t"}}, "lacks the required field body"),
        ({"result": [{"name": "title", "value": 1}, {"name": "title", "value": 2}]}, "given twice"),
        ({"result": ["title"]}, "is not a field"),
        ({"result": [{"name": "title"}]}, "is not a field"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        accepted_fields(arguments, ASKED)
