"""The tables that are loaded parse as those that are made from the grammar."""

from __future__ import annotations

from pathlib import Path

import pytest
from lark import Lark, UnexpectedInput

from afl.language.grammar import OPTIONS, digest, grammar_text, open_grammar, stored_tables

ROOT = Path(__file__).parents[3]
SOURCES = [ROOT / "src/afl/language/prelude.afl", *sorted(ROOT.glob("examples/*/*.afl"))[:6]]


def test_the_tables_are_those_of_the_grammar() -> None:
    assert stored_tables().grammar == digest(grammar_text()), "run `make docs`: grammar_tables.json is old"


@pytest.fixture(scope="module")
def made() -> Lark:
    return Lark(grammar_text(), **OPTIONS)


@pytest.fixture(scope="module")
def loaded() -> Lark:
    return open_grammar()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_the_same_tree(made: Lark, loaded: Lark, source: Path) -> None:
    text = source.read_text()
    assert loaded.parse(text) == made.parse(text)


def test_the_same_error(made: Lark, loaded: Lark) -> None:
    text = "workflow A(x: ) => (y: Long)"
    errors = []
    for each in (made, loaded):
        with pytest.raises(UnexpectedInput) as raised:
            each.parse(text)
        error = raised.value
        errors.append((type(error), error.line, error.column, set(error.accepts)))  # type: ignore[attr-defined]
    assert errors[0] == errors[1]


def test_tables_of_another_lark_are_not_used(monkeypatch: pytest.MonkeyPatch, made: Lark) -> None:
    monkeypatch.setattr("lark.__version__", "0.1")
    monkeypatch.setattr(Lark, "_load_from_dict", None)
    text = SOURCES[0].read_text()
    assert open_grammar().parse(text) == made.parse(text)
