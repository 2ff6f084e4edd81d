"""Phrases that were replaced do not come back, the spelling is American, and no file names another distribution."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
KINDS = {".py", ".md", ".html", ".js", ".css", ".sql", ".lua", ".lark", ".toml", ".yml", ".yaml", ".afl"}
PLACES = (
    "src",
    "docs",
    "examples",
    "deploy",
    "bench",
    "reference",
    "README.md",
    "CHANGELOG.md",
    "SECURITY.md",
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
    "were heard",
    "goes on without you",
    "has all of that",
    "may look, and not",
    "needs long for",
    "what does not fit fails",
    "as far as it comes",
    "whoever is there",
    "takes up again",
    "by whom is said",
    "no must",
)
# British spellings. asyncio, AnyIO, Textual and ARIA have names of their own, which are left out below.
BRITISH = re.compile(
    r"cancell(?:ed|ing|er|able)|colour|catalogue|behaviour|neighbour|favour(?!ites)|honour|labour|flavour|ageing"
    r"|(?:summar|serial|normal|organ|recogn|initial|synchron|optim|custom|minim|maxim|priorit|util|real|author|token"
    r"|standard|general|special|categor|random|parallel|visual|local|capital)is(?:e[ds]?|ing|ation)\b|analys(?:ed|es|ing)\b"
    r"|\bcentre|metre|licence|fulfil(?:s|ment)?\b|travell|modell(?:ed|ing)|labelled|signalled|levelled|judgement"
    r"|acknowledgement|\bgrey|artefact|whilst|amongst|learnt|misspelt|programmes?\b(?<=mme)|defence|practise"
    r"|for ever\b|towards|\bmend(?:s|ed|ing)?\b",
    re.IGNORECASE,
)
LIBRARIES = re.compile(
    r"\.cancell(?:ed|ing)\(\)|CANCELLED = CANCELED|\w*CancelledError"
    r"|worker\.is_cancelled|cancelled_caught|aria-labelledby"
)
# A requirement of the distribution, by its name: quoted, after `install`, or with extras.
OTHER = re.compile(r"agentflow(?!-afl)\[|install (-U )?['\"]?agentflow(?!-afl)\b")


class Read(NamedTuple):
    path: str
    text: str
    lower: str


@cache
def texts() -> list[Read]:
    found = [
        path
        for place in PLACES
        for path in ([ROOT / place] if (ROOT / place).is_file() else sorted((ROOT / place).rglob("*")))
        if path.is_file() and (path.suffix in KINDS or path.name == "Makefile")
    ]
    return [Read(str(path.relative_to(ROOT)), text := path.read_text(), text.lower()) for path in found]


@cache
def is_british(word: str) -> bool:
    return BRITISH.search(word) is not None


@pytest.mark.parametrize("phrase", OLD)
def test_an_old_phrase_is_gone(phrase: str) -> None:
    assert [each.path for each in texts() if phrase in each.lower] == []


def test_the_spelling_is_american() -> None:
    # A word is judged once, and a text read through if there may be something: that takes a tenth of the time.
    suspects = [
        each
        for each in texts()
        if "for ever" in each.lower or any(is_british(word) for word in set(re.findall(r"\w+", each.lower)))
    ]
    found = [
        f"{each.path}: {word[0]}"
        for each in suspects
        for word in BRITISH.finditer(LIBRARIES.sub("", each.text))
    ]
    assert found == []


def test_no_file_names_the_other_distribution() -> None:
    assert [each.path for each in texts() if OTHER.search(each.text)] == []
