"""Names in the code are the words of the field: metaphors that stood for mechanisms do not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
OLD_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        doorbell ear ears wire wires ring rings ringing rung hear heard heed desk desks scene scenes workbench hands
        chores intake aside foresight flight flights ground leaders errand errands lane lanes turnstile alone together
        born companion undelivered
        """,
    )
)
PUBLIC = {"doorbell", "_WIRE_VERSION"}  # the setting AFL_DOORBELL; the version of a MongoDB server
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def identifiers(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every name that a file gives: classes, functions, arguments, variables, attributes that it sets."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def _snake(name: str) -> str:
    return "_".join(word.lower() for word in _WORD.findall(name))


@cache
def is_old(name: str) -> bool:
    words = {word.lower() for word in _WORD.findall(name)}
    return name not in PUBLIC and bool(words & OLD_WORDS) and "in_flight" not in _snake(name)


def test_no_old_word_is_a_name() -> None:
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        module = path.relative_to(SOURCES)
        text = path.read_text(encoding="utf-8")
        names = [(path.stem, 1)]
        if any(is_old(word) for word in set(re.findall(r"\w+", text))):  # to parse takes most of the time
            names += identifiers(ast.parse(text))
        found += [f"{module}:{line} {name}" for name, line in names if is_old(name)]
    assert found == []
