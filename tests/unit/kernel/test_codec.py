"""What has no JSON form is refused, and its place is told."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from math import inf, nan
from typing import Any

import pytest
from pydantic import BaseModel

from afl.kernel.codec import MAX_LEVELS, decode, encode, plain_data, read, value_of
from afl.kernel.errors import PayloadError


@dataclass
class Item:
    price: Any


class Order(BaseModel):
    items: list[float]


class Word(str):
    """As numpy and parsers of HTML have."""


class Count(int):
    """A number of things."""


class Share(float):
    """As float64 of numpy is."""


class Color(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        pytest.param(nan, "it holds NaN", id="itself"),
        pytest.param(
            {"rows": [1.5, {"price": -inf}]}, "at rows[1].price: it holds NaN or an infinity", id="map"
        ),
        pytest.param(
            {"rows": (None, Item(nan))}, "at rows[1].price: it holds NaN or an infinity", id="dataclass"
        ),
        pytest.param([Order(items=[nan])], "at [0]: it holds NaN or an infinity", id="model"),
        pytest.param({"a": {"b": object()}}, "at a.b: a value of type object has no JSON form", id="object"),
        pytest.param(Item({(1, 2): 3}), "at price: a value of type tuple has no JSON form", id="key"),
        pytest.param(
            {"a": {True: 1}}, "at a: True is no key of a map in JSON; use a text", id="true as a key"
        ),
        pytest.param(
            {"a": {None: 1}}, "at a: None is no key of a map in JSON; use a text", id="null as a key"
        ),
        pytest.param([Share(nan)], "at [0]: it holds NaN or an infinity", id="a kind of float"),
        pytest.param({"name": "\ud800"}, "at name: 'utf-8' codec can't encode", id="surrogate"),
    ],
)
def test_what_is_no_plain_data_is_refused_with_its_place(value: Any, fault: str) -> None:
    with pytest.raises(PayloadError) as caught:
        encode(value, what="the result")
    assert str(caught.value).startswith(f"the result is not plain JSON data: {fault}")


@pytest.mark.parametrize(
    "keys",
    [
        {1: "a", "1": "b"},
        {1.5: "a", "1.5": "b"},
        {Color.RED: "a", "red": "b"},
        {date(2026, 1, 1): 1, "2026-01-01": 2},
    ],
    ids=["whole", "fraction", "enumeration", "date"],
)
def test_two_keys_that_are_one_text_in_json_are_refused_with_their_place(keys: Any) -> None:
    with pytest.raises(PayloadError, match=r"at rows\[1\]\.price: two of its keys are the same text in JSON"):
        plain_data({"rows": [{1: "a"}, Item(keys)]}, what="the result")


def test_plain_data_is_what_is_read_from_a_store() -> None:
    assert plain_data({1: (Item(None), {2.5: 10**30})}) == {"1": [{"price": None}, {"2.5": 10**30}]}


@pytest.mark.parametrize(
    "text",
    [
        "so",
        "",
        "NaN",
        "[-Infinity]",
        "1e999",
        "1" * 5000,
        '"\\ud800"',
        '"\ud800"',
        '[{"a": 1, "a": 2}]',
        "[" * 5000 + "]" * 5000,
    ],
    ids=["word", "empty", "nan", "infinity", "large", "digits", "half", "surrogate", "twice", "deep"],
)
def test_a_text_that_json_does_not_have_stays_a_text(text: str) -> None:
    assert value_of(text) == text


def test_a_text_that_is_json_is_its_value() -> None:
    assert value_of(' {"a": [1, null, "b"], "b": {"a": 2.5}}') == {"a": [1, None, "b"], "b": {"a": 2.5}}


def nested(levels: int) -> str:
    """Lists and maps in each other, with texts in them that look like the ends of some."""
    opened = ['["]}\\\\",', '{"\\"]}":']
    ends = ["]", "}"]
    order = [level % 2 for level in range(levels)]
    return "".join(opened[each] for each in order) + "1" + "".join(ends[each] for each in reversed(order))


@pytest.mark.parametrize("text", [nested(MAX_LEVELS), f"[{'[[]],' * 5000}[]]", '["' + "[" * 5000 + '"]'])
def test_a_value_of_few_levels_is_read(text: str) -> None:
    assert encode(plain_data(read(text))) == text


def test_how_deep_a_value_may_be_is_the_same_everywhere() -> None:
    """A decoder's own limit depends on the version of Python and on the stack of its caller."""
    with pytest.raises(RecursionError):
        read(nested(MAX_LEVELS + 1))


def test_what_is_stored_around_a_value_does_not_make_it_too_deep() -> None:
    deepest = read(nested(MAX_LEVELS))
    assert encode({"step": [{"result": deepest}]})
    with pytest.raises(PayloadError, match=r"the answer .* nested too deeply"):
        plain_data([deepest], what="the answer")
    for _ in range(200):
        deepest = [deepest]
    with pytest.raises(PayloadError, match="nested too deeply"):
        encode(deepest)


def test_a_value_that_holds_itself_is_refused() -> None:
    rows: list[Any] = []
    rows.append(rows)
    with pytest.raises(PayloadError, match="it holds itself, or lists and maps are nested too deeply in it"):
        encode({"rows": rows})


def test_kinds_of_texts_and_numbers_are_texts_and_numbers() -> None:
    text = encode({Word("w"): [Word("x"), Count(3), Share(2.5)], Count(7): None, Share(0.5): 1})
    assert decode(text) == {"w": ["x", 3, 2.5], "7": None, "0.5": 1}


def test_other_values_with_nothing_in_them_are_kept() -> None:
    value = {"none": None, "color": Color.RED, "day": date(2026, 11, 18), "item": Item(None), "null": "null"}
    assert decode(encode(value)) == {
        "none": None,
        "color": "red",
        "day": "2026-11-18",
        "item": {"price": None},
        "null": "null",
    }
