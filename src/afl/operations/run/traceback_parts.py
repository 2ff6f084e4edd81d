"""A traceback in parts: the frames of the user's own files to be shown, those of libraries to be folded."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from afl.kernel.traceback_text import is_own_file

_FRAME = re.compile(r'^(?P<indent>[ |+-]*?  )File "(?P<file>.+?)", line \d+')
# A traceback may come from a worker on another machine, whose paths are not those of this interpreter.
_LIBRARY = re.compile(r"[/\\](site|dist)-packages[/\\]|[/\\]lib(64)?[/\\]python3\.\d+[/\\]|\\Lib\\|^<frozen ")


@dataclass(frozen=True)
class TracebackPart:
    """Some lines. `frames` counts the frames of libraries among them; 0: it is to be shown."""

    text: str
    frames: int = 0


def traceback_parts(text: str) -> list[TracebackPart]:
    """The whole text, divided; all of it to be shown if no frame is of the user's own files."""
    parts: list[TracebackPart] = []
    for lines, is_library in _blocks(text):
        if parts and bool(parts[-1].frames) == is_library:
            parts[-1] = TracebackPart(f"{parts[-1].text}\n{lines}", parts[-1].frames + is_library)
        else:
            parts.append(TracebackPart(lines, int(is_library)))
    has_own = any(not part.frames and _FRAME.search(line) for part in parts for line in part.text.split("\n"))
    return parts if has_own else [TracebackPart(text)]


def _blocks(text: str) -> Iterator[tuple[str, bool]]:
    """Frames with the lines that belong to them, and what stands between; and whether a library's file is meant."""
    block: list[str] = []
    indent, is_library = "", False
    for line in text.split("\n"):
        frame = _FRAME.match(line)
        belongs = bool(indent) and line.startswith((f"{indent}  ", f"{indent}[Previous line repeated"))
        if block and (frame or not belongs):
            yield "\n".join(block), is_library
            block = []
        if frame:
            indent, is_library = frame["indent"], _is_library(frame["file"])
        elif not belongs:
            indent, is_library = "", False
        block.append(line)
    yield "\n".join(block), is_library


def _is_library(file: str) -> bool:
    return _LIBRARY.search(file) is not None or not is_own_file(file)
