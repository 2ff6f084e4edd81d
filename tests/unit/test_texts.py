"""Phrases that were replaced do not come back, and no file names another distribution."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".md", ".html", ".js", ".toml", ".yml", ".yaml", ".afl"}
PLACES = (
    "src",
    "docs",
    "examples",
    "deploy",
    "bench",
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "pyproject.toml",
)
OLD = (
    "kill it, and another goes on",
    "does not move",
    "makes it yours",
    "no long-term promise",
    "in earnest",
    "mend the cause",
    " of late",
    "somebody of",
    "that the clock starts",
    "nothing is called",
    "could not be asked.",
    "what it is about",
)
# A requirement of the distribution, by its name: quoted, after `install`, or with extras.
OTHER = re.compile(r"agentflow(?!-afl)\[|install (-U )?['\"]?agentflow(?!-afl)\b")


def texts() -> list[tuple[Path, str]]:
    found = [
        path
        for place in PLACES
        for path in ([ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")))
        if path.is_file() and (path.suffix in KINDS or path.name == "Makefile")
    ]
    return [(path, path.read_text()) for path in found]


@pytest.mark.parametrize("phrase", OLD)
def test_an_old_phrase_is_gone(phrase: str) -> None:
    assert [str(path.relative_to(ROOT)) for path, text in texts() if phrase in text.lower()] == []


def test_no_file_names_the_other_distribution() -> None:
    assert [str(path.relative_to(ROOT)) for path, text in texts() if OTHER.search(text)] == []
