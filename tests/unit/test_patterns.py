"""Regular expressions match the same on every Python that we support."""

from __future__ import annotations

import re
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
# Before 3.11.5 such a group may give up what it has matched: https://github.com/python/cpython/issues/106052
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)(?:[*+?]|\{[0-9,]+\})\+")


def test_no_group_is_possessive() -> None:
    files = [file for file in SOURCES.rglob("*") if file.suffix in {".py", ".lark"}]
    assert len(files) > 500
    found = [
        f"{file}:{number}: {line.strip()}"
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if POSSESSIVE_GROUP.search(line)
    ]
    assert found == []


def test_a_possessive_group_is_seen() -> None:
    assert POSSESSIVE_GROUP.search(r'"(?:[^"\\]|\\.)*+"')
    assert POSSESSIVE_GROUP.search(r"(a|b){2,3}+c")
    assert not POSSESSIVE_GROUP.search(r"\([^)]*+\)*+[a-z]++")
