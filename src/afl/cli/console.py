"""Where the command line writes: results to standard output, everything else to standard error."""

from __future__ import annotations

import json
import sys
from typing import Any

from rich.console import Console
from rich.text import Text

_UNLIMITED = 10_000


def errors() -> Console:
    """Standard error as it is now; made anew so that whoever redirects it is followed."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def output() -> Console:
    """Standard output; what goes to a file or a pipe is never cut or folded."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _UNLIMITED
    return console


def print_json(value: Any) -> None:
    """A result."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(value, indent=2, ensure_ascii=not plain))


def say(text: str | Text, style: str = "") -> None:
    """A message to the person."""
    errors().print(text if isinstance(text, Text) else Text(text), style=style)


def can_ask() -> bool:
    """Whether there is somebody at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def duration(milliseconds: float) -> str:
    """A duration as people read it."""
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
