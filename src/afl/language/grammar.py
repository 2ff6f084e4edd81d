"""The grammar as Lark runs it: from tables made beforehand, or from its text.

Making the tables takes a tenth of a second of every process that parses. `make docs` writes them to `grammar_tables`;
if they are those of another grammar or of another version of Lark, they are made here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import lark
from lark import Lark

from afl.kernel.package_files import package_folder
from afl.language import grammar_tables

OPTIONS: dict[str, Any] = {
    "start": "program",
    "parser": "lalr",
    "lexer": "contextual",
    "keep_all_tokens": True,
    "maybe_placeholders": False,
}


def grammar_text() -> str:
    """The grammar's source."""
    return (package_folder("afl.language") / "grammar.lark").read_text(encoding="utf-8")


def digest(text: str) -> str:
    """What tables are known by: the grammar and the options they were made of."""
    return sha256(f"{sorted(OPTIONS.items())}{text}".encode()).hexdigest()


def open_grammar(**parts: Any) -> Lark:
    """The parser with this `transformer` and `postlex`."""
    text = grammar_text()
    if (lark.__version__, digest(text)) == (grammar_tables.LARK, grammar_tables.GRAMMAR):
        # As the parsers do that Lark generates; its public `load` takes no transformer.
        loaded: Lark = Lark._load_from_dict(grammar_tables.DATA, grammar_tables.MEMO, **parts)  # type: ignore[no-untyped-call]
        return loaded
    return Lark(text, **OPTIONS, **parts)
