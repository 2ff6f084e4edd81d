"""Whether values fit declared types."""

from __future__ import annotations

from typing import Any

import pytest

from afl.runtime.program.values import misfit, type_text, unknown_name

LONGS = {"type": "ArrayType", "elementType": "Long"}
SCHEMAS = {"ns.Point": {"x": "Long", "tags": {"type": "ArrayType", "elementType": "String"}}}


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("x", "String"),
        (1, "Long"),
        (-(2**63), "Long"),
        (1, "Int"),
        (1, "Double"),
        (1.5, "Double"),
        (True, "Boolean"),
        ({"a": 1}, "Map"),
        ([1], "List"),
        ([1, 2], LONGS),
        ([], LONGS),
        ([[1], []], {"type": "ArrayType", "elementType": LONGS}),
        ({"x": 1, "tags": ["a"]}, "ns.Point"),
        ({"x": 1, "tags": [], "more": 1}, "ns.Point"),
        ({"any": [1]}, "Json"),
        ("text", "Json"),
        (1, "NeverDeclared"),
    ],
)
def test_values_that_fit(value: Any, kind: Any) -> None:
    assert misfit(value, kind, SCHEMAS, "v") is None


@pytest.mark.parametrize("kind", ["String", "Long", "Boolean", "ns.Point", LONGS])
def test_null_fits_every_type(kind: Any) -> None:
    assert misfit(None, kind, SCHEMAS, "v") is None


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (1, "String", "v: expected String, got Long 1"),
        (True, "Long", "v: expected Long, got Boolean True"),
        (1.5, "Int", "v: expected Int, got Double 1.5"),
        (2**63, "Long", "v: expected Long, got an integer of more than 64 bits"),
        (-(2**63) - 1, "Double", "v: expected Double, got an integer of more than 64 bits"),
        ("yes", "Boolean", "v: expected Boolean, got String 'yes'"),
        ("x", LONGS, "v: expected [Long], got String 'x'"),
        ([1, "x"], LONGS, "v[1]: expected Long, got String 'x'"),
        (
            "1.25",
            "Double",
            "v: expected Double, got String '1.25'; it is a text, as a Decimal or a number in quotes is",
        ),
        (
            ["-3"],
            LONGS,
            "v[0]: expected Long, got String '-3'; it is a text, as a Decimal or a number in quotes is",
        ),
        ("1.25 EUR", "Double", "v: expected Double, got String '1.25 EUR'"),
        (3, "ns.Point", "v: expected ns.Point, got Long 3"),
        ({"x": 1}, "ns.Point", "v: field 'tags' of ns.Point is missing"),
        ({"x": 1, "tags": [2]}, "ns.Point", "v.tags[0]: expected String, got Long 2"),
    ],
)
def test_values_that_do_not_fit_say_where_and_why(value: Any, kind: Any, text: str) -> None:
    assert misfit(value, kind, SCHEMAS, "v") == text


def test_a_value_nests_as_deep_as_a_schema_that_holds_itself_allows() -> None:
    schemas = {"Node": {"v": "Long", "next": {"type": "ArrayType", "elementType": "Node"}}}
    fits: Any = {"v": 1, "next": []}
    wrong: Any = {"v": "x", "next": []}
    for number in range(5_000):
        fits, wrong = {"v": number, "next": [fits]}, {"v": number, "next": [wrong]}
    assert misfit(fits, "Node", schemas, "n") is None
    assert (
        misfit(wrong, "Node", schemas, "n") == "n" + ".next[0]" * 5_000 + ".v: expected Long, got String 'x'"
    )


def test_long_values_are_shortened() -> None:
    text = misfit("x" * 1000, "Long", {}, "v")
    assert text is not None
    assert len(text) < 100
    assert text.endswith("...")


def test_types_are_shown_as_written() -> None:
    assert type_text("Long") == "Long"
    assert type_text({"type": "ArrayType", "elementType": LONGS}) == "[[Long]]"


def test_unknown_names_come_with_the_nearest_known_one() -> None:
    assert unknown_name("input", "nmae", ["name", "age"]) == "unknown input 'nmae'; did you mean 'name'?"
    assert unknown_name("input", "zzz", ["b", "a"]) == "unknown input 'zzz'; known: a, b"
    assert unknown_name("input", "zzz", []) == "unknown input 'zzz'; known: none"
