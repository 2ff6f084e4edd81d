"""Secrets that no error text and no line of log may carry: masked before it is stored, not where it is shown.

Masked are passwords and tokens in addresses, the values of settings that are secret, and what `afl.redact` was told.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

import msgspec

from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import MASK, mask_urls

LEAST_CHARACTERS = 4
MOST_CHARACTERS = 65_536
MOST_SECRETS = 1_000

_guard = threading.Lock()
_secrets: set[str] = set()
_pattern: re.Pattern[str] | None = None  # None as long as there are none, so that they cost nothing


def redact(*secrets: str) -> None:
    """Mask these texts from now on, in whatever this process stores or logs of errors and in log lines.

    Call it where a secret enters: `afl.redact(os.environ["API_KEY"])`. An empty text is passed over. InputError for
    one so short that it would mask ordinary words.
    """
    for each in secrets:
        if not isinstance(each, str) or (each and not LEAST_CHARACTERS <= len(each) <= MOST_CHARACTERS):
            raise InputError(
                f"a secret to mask is a text of {LEAST_CHARACTERS} to {MOST_CHARACTERS:,} characters; "
                f"got {_size(each)}"
            )
    _add(each for each in secrets if each)


def redacted(text: str) -> str:
    """The text with every secret masked. The work is proportional to its length."""
    return mask_urls(text if _pattern is None else _pattern.sub(MASK, text))


def redacted_data(value: Any) -> Any:
    """A copy of plain data, however deep, with the secrets in its texts masked; keys are left alone."""
    whole: list[Any] = [value]
    places: list[tuple[Any, Any]] = [(whole, 0)]
    while places:
        container, key = places.pop()
        found = container[key]
        if isinstance(found, str):
            container[key] = redacted(found)
        elif isinstance(found, dict):
            container[key] = copy = dict(found)
            places += [(copy, name) for name in copy]
        elif isinstance(found, list | tuple):
            container[key] = items = list(found)
            places += [(items, number) for number in range(len(items))]
    return whole[0]


def beginning(text: str, length: int) -> str:
    """The first characters of a text, with `redact`ed secrets masked: one that reaches beyond them as a whole."""
    if _pattern is None:
        return text[:length]
    pieces, position = [], 0
    for found in _pattern.finditer(text, 0, length + _longest()):
        if found.start() >= length:
            break
        pieces += [text[position : found.start()], MASK]
        position = found.end()
    return "".join([*pieces, text[position:length]])


def forget_secrets() -> None:
    """As a process begins: for tests, many of which share one."""
    _set(set())


def _add(found: Iterable[str]) -> None:
    with _guard:
        grown = _secrets.union(*map(_spellings, found))
        if len(grown) > MOST_SECRETS:
            raise InputError(f"more than {MOST_SECRETS:,} secrets to mask; tell each only once")
        if len(grown) > len(_secrets):
            _set(grown)


def _set(secrets: set[str]) -> None:
    global _secrets, _pattern
    longest_first = sorted(secrets, key=len, reverse=True)
    _secrets, _pattern = secrets, re.compile("|".join(map(re.escape, longest_first))) if secrets else None


def _spellings(secret: str) -> set[str]:
    """A secret as it stands in a text, in an address, in a `repr` and in JSON."""
    try:
        in_json = msgspec.json.encode(secret).decode()[1:-1]
        return {secret, quote(secret, safe=""), repr(secret)[1:-1], in_json}
    except UnicodeEncodeError:  # of half a character
        return {secret, repr(secret)[1:-1]}


def _longest() -> int:
    return max(map(len, _secrets), default=0)


def _size(value: object) -> str:
    return f"{len(value):,}" if isinstance(value, str) else f"a {type(value).__name__}"
