"""Inputs as people type them, read by the declared type."""

from __future__ import annotations

import json
import re
from pathlib import Path
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


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ("s=\udcff", "input 's' cannot be read: it is not UTF-8"),
        (f"j={'[' * 5000}", "input 'j' cannot be .* deeply"),
    ],
    ids=["not-text", "deep"],
)
def test_a_value_that_cannot_be_read_is_named(program: Program, pair: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_inputs(program, [pair])


def test_a_text_may_have_any_brackets(program: Program) -> None:
    assert read_inputs(program, [f"s={'[' * 5000}"])["s"] == "[" * 5000


@pytest.mark.parametrize(
    ("data", "message", "line"),
    [
        (b'{"j":\n "\xff"}', "is not UTF-8: invalid start byte", (2, 3)),
        (b'{"j":\n [1, NaN]}', "is not JSON: .*invalid character", (2, 6)),
        (b'{"j":\n 1 2}', "is not JSON: ", (2, 4)),
        (b'{"j": ' + b"[" * 5000 + b"]" * 5000 + b"}", "nested too deeply", None),
        (b'{"j": ' + b"1" * 5000 + b"}", "Integer value out of range", None),
    ],
    ids=["not-text", "nan", "comma", "deep", "digits"],
)
def test_a_file_that_cannot_be_read_is_named_with_the_line(
    program: Program, tmp_path: Path, data: bytes, message: str, line: tuple[int, int] | None
) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=rf"in\.json .*{message}") as caught:
        read_inputs(program, whole=path)
    place = caught.value.place
    assert (None if place is None else (place.line, place.column)) == line


def test_a_byte_order_mark_before_the_inputs_is_skipped(program: Program, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_bytes(b'\xef\xbb\xbf{"n": 2}')
    assert read_inputs(program, whole=path) == {"n": 2}


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


def test_inputs_may_be_given_as_an_object(program: Program) -> None:
    assert read_inputs(program, ["n=3"], ' {"n": 2, "s": "http://x//y"}') == {"n": 3, "s": "http://x//y"}
    with pytest.raises(InputError, match="--inputs is not JSON: ") as caught:
        read_inputs(program, whole='{"n": }')
    assert caught.value.place == ("--inputs", 1, 7)
