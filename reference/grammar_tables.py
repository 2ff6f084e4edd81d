"""The tables of the grammar, generated: a parser that loads them need not make them."""

from __future__ import annotations

import json
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

from afl.language.grammar import OPTIONS, TABLES, digest, grammar_text, stored_tables

_DEEP = 4  # levels that have a line for each entry


def generated() -> str:
    """The text of the file; that of today if it is up to date, for the numbers of states differ each time."""
    text = grammar_text()
    if TABLES.exists() and stored_tables().is_of(text):
        return TABLES.read_text()
    data, memo = Lark(text, **OPTIONS).memo_serialize([TerminalDef, Rule])
    made = f'"lark": "{lark.__version__}",\n"grammar": "{digest(text)}"'
    return f'{{\n{made},\n"data": {_lines(data, _DEEP)},\n"memo": {_lines(memo, 1)}\n}}\n'


def _lines(value: Any, deep: int) -> str:
    if not deep or not isinstance(value, dict) or not value:
        return json.dumps(value)
    rows = (f"{json.dumps(str(key))}: {_lines(each, deep - 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(rows) + "\n}"
