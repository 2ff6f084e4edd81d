"""Text from a side that knows nothing else, as the types of a return clause."""

from __future__ import annotations

from typing import Any

import pytest
from support.crossings import program

from afl.bridges.bridge import ExternalTask, declared_values, field_descriptions, typed_values
from afl.runtime.entities import TaskDefinition

SOURCE = """
schema Place { name: String }
/** @return n how many @return place where */
event facet F() => (n: Long, x: Double, yes: Boolean, text: String, place: Place, list: [Long], any: Any)
event facet G()
workflow W() andThen { f = F() }
"""


def external(name: str) -> ExternalTask:
    task = TaskDefinition("t", name, "", "w", "", "s")
    return ExternalTask(task, "t", "somebody", program(SOURCE).declaration(name))


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("n", " 7 ", 7),
        ("n", "7.5", "7.5"),
        ("n", "1_000", "1_000"),
        ("x", "2.5", 2.5),
        ("x", "much", "much"),
        ("yes", "True", True),
        ("yes", "perhaps", "perhaps"),
        ("text", "7", "7"),
        ("text", '{"a": 1}', '{"a": 1}'),
        ("any", "7", "7"),
        ("place", '{"name": "Skye"}', {"name": "Skye"}),
        ("list", "[1, 2]", [1, 2]),
        ("list", "1, 2", "1, 2"),
        ("list", "[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
        ("list", "[NaN]", "[NaN]"),
        ("place", '{"name": "\\ud800"}', '{"name": "\\ud800"}'),
        ("place", '{"name": "a", "name": "b"}', '{"name": "a", "name": "b"}'),
        ("place", "\ud800", "\ud800"),
        ("n", "1" * 5000, "1" * 5000),
    ],
)
def test_text_as_values(field: str, text: str, value: Any) -> None:
    assert typed_values(external("F"), {field: text}) == {field: value}


def test_fields_are_described_by_type_and_comment() -> None:
    asked = field_descriptions(external("F"))
    assert asked is not None
    assert (asked["n"], asked["x"], asked["list"]) == ("Long; how many", "Double", "[Long]")
    assert field_descriptions(external("G")) is None


def test_only_what_the_clause_names_is_taken() -> None:
    given = {"n": 1, "more": 2}
    assert declared_values(external("F"), given) == {"n": 1}
    assert declared_values(external("G"), given) == given
