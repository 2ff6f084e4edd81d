"""Operators on plain values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.runtime.program import operators
from afl.runtime.program.operators import BINARY

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (True, "Boolean"),
        (1, "Long"),
        (1.0, "Double"),
        ("", "String"),
        ([], "List"),
        ({}, "Map"),
        (b"", "bytes"),
    ],
)
def test_type_names_are_the_languages(value: Any, name: str) -> None:
    assert operators.type_name(value) == name


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (True, 1, False),
        ([1], [1], True),
        ([[1]], [[True]], False),
        ({"a": [1.0]}, {"a": [1]}, True),
        ({"a": 0}, {"a": False}, False),
    ],
)
def test_equality(left: Any, right: Any, same: bool) -> None:
    assert BINARY["=="](left, right) is same
    assert BINARY["!="](left, right) is not same


@given(plain, plain)
def test_unequal_is_the_opposite_of_equal(left: Any, right: Any) -> None:
    assert BINARY["!="](left, right) is not BINARY["=="](left, right)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000))
def test_order_is_that_of_numbers(left: int, right: int) -> None:
    found = [BINARY[symbol](left, right) for symbol in ("<", "<=", ">", ">=")]
    assert found == [left < right, left <= right, left > right, left >= right]


def test_texts_are_ordered_and_mixtures_are_not() -> None:
    assert BINARY["<"]("a", "b") is True
    with pytest.raises(TypeError, match="cannot compare String with Long"):
        BINARY["<"]("a", 1)
    with pytest.raises(TypeError, match="cannot compare Boolean with Boolean"):
        BINARY["<"](False, True)


@pytest.mark.parametrize(
    ("container", "item", "inside"),
    [
        ([1, 2], 2, True),
        ([1, 2], True, False),
        ({"k": 1}, "k", True),
        ({"k": 1}, ["k"], False),
        ("hello", "ell", True),
        ("a1", 1, True),
    ],
)
def test_containment_both_ways_round(container: Any, item: Any, inside: bool) -> None:
    assert BINARY["contains"](container, item) is inside
    assert BINARY["in"](item, container) is inside
    assert BINARY["not in"](item, container) is not inside


def test_numbers_contain_nothing() -> None:
    with pytest.raises(TypeError, match="cannot look into Long"):
        BINARY["in"](1, 2)


def test_text_matches_take_any_value_as_text() -> None:
    assert BINARY["startsWith"]("hello", "he") is True
    assert BINARY["endsWith"](42, 2) is True


def test_text_is_joined_not_added() -> None:
    with pytest.raises(TypeError, match=r"use '\+\+' to join text"):
        BINARY["+"]("a", "b")


def test_booleans_are_no_numbers() -> None:
    with pytest.raises(TypeError, match="cannot combine Boolean and Long"):
        BINARY["+"](True, 1)


@pytest.mark.parametrize(
    ("symbol", "left", "right"), [("+", 2**63 - 1, 1), ("*", 2**40, 2**40), ("-", -(2**63), 1)]
)
def test_results_that_cannot_be_stored_are_refused(symbol: str, left: int, right: int) -> None:
    with pytest.raises(ValueError, match="64-bit"):
        BINARY[symbol](left, right)


def test_infinite_results_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        BINARY["*"](1e308, 10.0)


def test_indexing_from_both_ends() -> None:
    assert [operators.index(["a", "b"], key) for key in (0, 1, -1, -2)] == ["a", "b", "b", "a"]
    with pytest.raises(LookupError, match="index 2 is outside a list of 2"):
        operators.index(["a", "b"], 2)
    with pytest.raises(LookupError, match="no key 'q'"):
        operators.index({"k": 1}, "q")
    with pytest.raises(TypeError, match="indexed by a number, got Boolean"):
        operators.index(["a"], True)


@given(st.lists(plain, max_size=4))
def test_text_of_anything_can_be_joined(values: list[Any]) -> None:
    mixed = ["start", *values]
    assert operators.concatenate(mixed) == "start" + "".join(operators.text_of(value) for value in values)


@given(st.lists(st.lists(plain, max_size=3), min_size=1, max_size=4))
def test_lists_join_to_one_list(lists: list[list[Any]]) -> None:
    assert operators.concatenate(lists) == [item for each in lists for item in each]
