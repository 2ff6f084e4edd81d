"""The grammar as Lark runs it: from tables made beforehand, or from its text.

Making the tables takes a tenth of a second of every process that parses. `make docs` writes them to
`grammar_tables.json`; if they are those of another grammar or of another version of Lark, they are made here.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import lark
import msgspec
from lark import Lark

from afl.kernel.package_files import package_folder

TABLES = package_folder("afl.language") / "grammar_tables.json"
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


class Tables(msgspec.Struct, frozen=True):
    """What Lark made of a grammar, as it serializes it, and which grammar and version of Lark that was."""

    lark: str
    grammar: str
    data: dict[str, Any]
    memo: dict[int, Any]

    def is_of(self, text: str) -> bool:
        """Whether they are those of this grammar and of the Lark that is installed."""
        return (self.lark, self.grammar) == (lark.__version__, digest(text))


def stored_tables() -> Tables:
    """The tables that were made beforehand."""
    tables = msgspec.json.decode(TABLES.read_bytes(), type=Tables)
    parser = tables.data["parser"]["parser"]
    parser["states"] = {int(state): actions for state, actions in parser["states"].items()}
    return tables


def open_grammar(**parts: Any) -> Lark:
    """The parser with this `transformer` and `postlex`."""
    text = grammar_text()
    tables = stored_tables()
    if tables.is_of(text):
        # As the parsers do that Lark generates; its public `load` takes no transformer.
        loaded: Lark = Lark._load_from_dict(tables.data, tables.memo, **parts)  # type: ignore[no-untyped-call]
        return loaded
    return Lark(text, **OPTIONS, **parts)
