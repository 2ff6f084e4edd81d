"""docs/architecture.md names files and functions that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
SOURCE = ROOT / "src" / "afl"
ROWS = re.findall(r"^\| `([\w/]+\.py)` \| `([\w.]+)` \|", PAGE, re.MULTILINE)


def defined(path: Path) -> set[str]:
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found |= {node.name, *(f"{node.name}.{each.name}" for each in inner)}
    return found


def test_the_tables_have_rows() -> None:
    assert len(ROWS) > 20


@pytest.mark.parametrize(("file", "function"), ROWS)
def test_a_function_of_a_path_exists(file: str, function: str) -> None:
    assert function in defined(SOURCE / file)


def test_every_path_exists() -> None:
    named = re.findall(r"`((?:[\w.]+/)+[\w.]*|[\w/]+\.py)`", PAGE)
    roots = (SOURCE, ROOT)
    missing = [
        each for each in named if "NNNN" not in each and not any((root / each).exists() for root in roots)
    ]
    assert missing == []
