"""The synchronous client, generated from the asynchronous one: the same methods without `async` and `await`."""

from __future__ import annotations

import re
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src/afl/client"
NOTE = "# Generated from {source} by `make docs`; change that file.\n"
_WORDS = (
    (r"\basync (def|with|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncIterator\b", "Iterator"),
    (r"\bAsync(Client|RunHandle|Calls|Turns|Session|Fleet|Messages)\b", r"\1"),
    (r"\bafl\.client\.async_", "afl.client."),
    (r'"async_(turns|fleet|messages)"', r'"\1"'),
)


def generated() -> dict[Path, str]:
    """The generated modules with their text."""
    return {
        source.with_name(source.name.removeprefix("async_")): without_async(source)
        for source in sorted(CLIENT.glob("async_*.py"))
        if source.name != "async_calls.py"  # waits in another way
    }


def without_async(source: Path) -> str:
    """The text of a module whose functions are no coroutines."""
    text = source.read_text()
    for pattern, replacement in _WORDS:
        text = re.sub(pattern, replacement, text)
    return NOTE.format(source=source.name) + text
