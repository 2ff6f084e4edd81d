"""The words that a run is searched by, and those that somebody searches for: cut out of texts the same way."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

from afl.kernel.redaction import redacted

MOST_WORDS = 300
LONGEST_TEXT = 20_000
_LONGEST_WORD = 40
_ID_END = 8  # people name a run by the last characters of its id as well
_CLOCK_ID = 20
BEGINNING = 3  # shorter words are found as a whole alone: too many words begin like them
_WORD = re.compile(r"[^\W_]+")
_ESCAPE = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def words_in(text: str) -> list[str]:
    """The words of a text, each once: letters and digits, without case and accents."""
    plain = unicodedata.normalize("NFKD", text.replace("\0", " ")).casefold()
    letters = "".join(each for each in plain if not unicodedata.combining(each))
    return list(dict.fromkeys(word[:_LONGEST_WORD] for word in _WORD.findall(letters)))


def run_words(
    run: str, *, workflow: str, name: str, tags: str, inputs: str, outputs: str, error: str, reason: str
) -> list[str]:
    """The words of a run, most telling first, at most 300; maps are given as JSON, and may be cut off."""
    # Stores find an id by its beginning by themselves; those of the clock all begin alike, and would fill the index.
    known = [] if run.isalnum() and len(run) >= _CLOCK_ID else [run]
    pieces = [*known, run[-_ID_END:], name, workflow, _HUMP.sub(" ", workflow)]
    pieces += [_readable(text) for text in (tags, error, reason, inputs, outputs)]
    return list(dict.fromkeys(_first(words_in(piece) for piece in pieces)))


def _first(several: Iterable[list[str]]) -> Iterator[str]:
    seen: set[str] = set()
    for words in several:
        for word in words:
            if len(seen) >= MOST_WORDS:
                return
            seen.add(word)
            yield word


def _readable(json_text: str) -> str:
    """JSON as the words in it stand there, with secrets masked."""
    return _ESCAPE.sub(" ", redacted(json_text[:LONGEST_TEXT]))
