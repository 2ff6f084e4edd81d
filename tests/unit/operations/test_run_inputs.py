"""Inputs as people type them, read by the declared type."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.errors import InputError
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import read_inputs, read_value
from afl.runtime.program.program import Program

SOURCE = """schema Point {
    x: Long
}
workflow W(s: String = "", n: Long = 0, d: Double = 0.0, b: Boolean = true, j: Json = null,
    xs: [String] = [], p: Point = null) => (y: Long) andThen {
    yield W(y = 1)
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return choose_workflow(compile_source(SOURCE))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("s=42", "42"),
        ("s=true", "true"),
        ("s=null", "null"),
        ('s="42"', "42"),
        ("s=[1]", "[1]"),
        ("s=a=b", "a=b"),
        ("s=", ""),
        ("n=42", 42),
        ("n=null", None),
        ("d=1.5", 1.5),
        ("d=1", 1),
        ("b=false", False),
        ("j=text", "text"),
        ('j={"a": [1]}', {"a": [1]}),
        ('xs=["a"]', ["a"]),
        ('p={"x": 1}', {"x": 1}),
    ],
)
def test_a_value_is_json_unless_a_text_is_wanted(program: Program, pair: str, value: Any) -> None:
    assert list(read_inputs(program, [pair]).values()) == [value]


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("n=1.5", r"input 'n': expected Long, got Double 1\.5"),
        ("n=x", "input 'n': expected Long, got String 'x'"),
        ("b=yes", "input 'b': expected Boolean"),
        ("xs=a", r"input 'xs': expected \[String\]"),
        ("xs=[1]", r"input 'xs'\[0\]: expected String, got Long 1"),
        ('p={"y": 1}', "input 'p': field 'x' of Point is missing"),
        ("nn=1", "unknown input 'nn'; did you mean 'n'"),
        ("n", "an input is written name=value, got 'n'"),
        ("=1", "an input is written name=value"),
    ],
)
def test_a_value_that_does_not_fit(program: Program, pair: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_inputs(program, [pair])


def test_what_does_not_fit_is_answered_with_what_is_taken(program: Program) -> None:
    with pytest.raises(InputError) as caught:
        read_inputs(program, ["n=x"])
    taken = r"It takes \(s: String, .*xs: \[String\].*\); write --input s=VALUE, a text"
    assert re.match(taken, caught.value.hint)
    bare = choose_workflow(compile_source("workflow W() => (y: Long) andThen { yield W(y = 1) }"))
    assert read_inputs(bare) == {}


def test_an_input_given_twice(program: Program) -> None:
    with pytest.raises(InputError, match="input 'n' is given twice"):
        read_inputs(program, ["n=1", "n=2"])


@given(st.text())
def test_any_text_reaches_a_string_parameter(text: str) -> None:
    value = read_value(text, "String")
    assert value == text or json.loads(text) == value


@given(
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.text()
)
def test_json_reaches_a_json_parameter(value: Any) -> None:
    assert read_value(json.dumps(value), "Json") == value
