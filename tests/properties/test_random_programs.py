"""Properties of random programs: they compile, survive formatting, and compile to the same thing every time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from programs import programs
from support.properties import tries

from afl.language import CompileError, ParseError, compile_source, emit_dict, parse
from afl.language.format_lines import Piece, pieces
from afl.language.formatter import format_source


def ids(node: Any, key: str = "") -> list[str]:
    """Every id below a node; `declarations` repeats what the split keys hold."""
    if isinstance(node, list):
        return [one for item in node for one in ids(item)]
    if not isinstance(node, dict):
        return []
    own = [node["id"]] if "id" in node else []
    return own + [one for name, value in node.items() if name != "declarations" for one in ids(value, name)]


@tries(60, deep=100)
@given(programs())
def test_a_valid_program_compiles_alike_however_often_and_however_laid_out(source: str) -> None:
    compiled = compile_source(source).program
    assert emit_dict(parse(source)) == compiled
    assert len(set(ids(compiled))) == len(ids(compiled))
    formatted = format_source(source)
    assert parse(formatted) == parse(source)
    assert format_source(formatted) == formatted
    assert emit_dict(parse(formatted), include_locations=False) == emit_dict(parse(source), False)


def _scattered(found: list[Piece], gaps: list[str]) -> str:
    text = ""
    for number, piece in enumerate(found):
        follows_not = number and found[number - 1].text == "not"
        text += (" " if follows_not else gaps[number % len(gaps)]) + piece.text
    return text


GAPS = st.sampled_from(
    [" ", "\n", "\n\n\n", " // note\n", "\n// own line\n", " /* inline */ ", "\n/* a\n  b */\n"]
)


@tries(60, deep=100)
@given(programs(), st.lists(GAPS, min_size=1, max_size=40))
def test_comments_and_line_breaks_anywhere_change_nothing_and_are_kept(source: str, gaps: list[str]) -> None:
    scattered = _scattered(list(pieces(source)), gaps)
    formatted = format_source(scattered)
    assert parse(scattered) == parse(source) == parse(formatted)
    assert format_source(formatted) == formatted
    for mark in ("// note", "// own line", "/* inline */"):
        assert formatted.count(mark) == scattered.count(mark)


@given(programs(), st.data())
def test_a_damaged_program_is_refused_in_words_or_still_a_program(source: str, data: st.DataObject) -> None:
    found = [piece.text for piece in pieces(source)]
    victim = data.draw(st.integers(0, len(found) - 1))
    replacement = data.draw(st.sampled_from(["", "{", "}", ")", "yield", "=", "$.", '"', "facet", "§"]))
    damaged = " ".join([*found[:victim], replacement, *found[victim + 1 :]])
    try:
        compile_source(damaged)
    except CompileError as error:
        assert error.diagnostics
        assert all(one.line is not None and one.message for one in error.diagnostics)


@given(st.text(max_size=60))
def test_no_text_upsets_the_parser(text: str) -> None:
    try:
        program = parse(text)
    except ParseError as error:
        assert error.line is not None
        assert error.column is not None
    else:
        assert program == parse(text)


@pytest.mark.parametrize(
    "deep", ["(" * 5000 + "1" + ")" * 5000, "-" * 500 + "1", "1" + " + 1" * 500, "[" * 500]
)
def test_deep_nesting_is_an_error_and_no_crash(deep: str) -> None:
    text = f"facet F(a: Json = {deep})"
    try:
        compile_source(text)
    except CompileError as error:
        assert {one.rule_id for one in error.diagnostics} <= {"SYNTAX_TOO_DEEP", "SYNTAX_UNEXPECTED"}
    else:
        assert deep.startswith("(")  # parentheses leave no trace in the tree
