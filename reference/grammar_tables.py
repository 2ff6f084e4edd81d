"""The tables of the grammar, generated: a parser that loads them need not make them."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

TABLES = Path(__file__).parents[1] / "src/afl/language/grammar_tables.py"
_HEAD = '''# Generated from grammar.lark by `make docs`; change that file.
# ruff: noqa: E501
# fmt: off
"""The grammar's tables."""

from typing import Any

'''
_DEEP = 4  # levels that have a line for each entry


def generated() -> str:
    """The text of the module; that of today if it is up to date, for the numbers of states differ each time."""
    if not TABLES.exists():
        TABLES.write_text(f'{_HEAD}LARK = GRAMMAR = ""\nDATA: Any = {{}}\nMEMO: Any = {{}}\n')
    grammar = importlib.import_module("afl.language.grammar")
    text = grammar.grammar_text()
    made = {"LARK": lark.__version__, "GRAMMAR": grammar.digest(text)}
    if all(getattr(grammar.grammar_tables, name) == value for name, value in made.items()):
        return TABLES.read_text()
    data, memo = Lark(text, **grammar.OPTIONS).memo_serialize([TerminalDef, Rule])
    known = "".join(f'{name} = "{value}"\n' for name, value in made.items())
    return f"{_HEAD}{known}DATA: Any = {_lines(data, _DEEP)}\nMEMO: Any = {_lines(memo, 1)}\n"


def _lines(value: Any, deep: int) -> str:
    if not deep or not isinstance(value, dict):
        return repr(value)
    return "{\n" + "".join(f"{key!r}: {_lines(each, deep - 1)},\n" for key, each in value.items()) + "}"
