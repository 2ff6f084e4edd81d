"""The traceback of an exception as text that can be stored: bounded, without secrets and local variables."""

from __future__ import annotations

import os
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from afl.kernel.error_text import excerpt
from afl.kernel.errors import SourcePlace

MOST_CHARACTERS = 16_384
_HEAD = MOST_CHARACTERS // 4  # what raised is at the end
_FRAMES = 10_000

_OURS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple(_PATHS[name] + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_BETWEEN = tuple(  # of a coroutine, between our frames and its own
    os.path.join(_PATHS["stdlib"], name)
    for name in ("asyncio" + os.sep, "concurrent" + os.sep, "contextlib.py")
)


@dataclass(frozen=True, slots=True)
class TracebackText:
    """`text` is what Python prints; `location` the last line of the user's own code: `/app/agents.py:12 in fetch`."""

    text: str
    location: str


def traceback_text(error: BaseException) -> TracebackText:
    """The traceback below our own frames, with causes, notes and the members of a group; never raises."""
    try:
        found = traceback.TracebackException.from_exception(error, limit=-_FRAMES)
        for each in _all(found):
            each.stack = traceback.StackSummary.from_list(_below_ours(each.stack))
        return TracebackText(_stored("".join(found.format())), _location(_guilty(found).stack))
    except Exception as problem:  # of an exception class of the user's
        return TracebackText(f"{type(error).__name__} (no traceback: {type(problem).__name__})", "")


def stack_text(thread: int) -> TracebackText | None:
    """Where a thread is right now, from the first line of the user's own code on; None if it is in no such code."""
    frame = sys._current_frames().get(thread)
    frames = [] if frame is None else list(traceback.extract_stack(frame))
    first = next((number for number, each in enumerate(frames) if is_own_file(each.filename)), None)
    if first is None:
        return None
    called = traceback.StackSummary.from_list(frames[first:])
    text = "Stack (most recent call last):\n" + "".join(called.format())
    return TracebackText(_stored(text), _location(called))


def own_place(error: BaseException) -> SourcePlace | None:
    """The last place in the user's own code on the way to an error; None if it did not come through any."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if is_own_file(frame.filename) and os.path.isfile(frame.filename)  # a class may have generated code
    ]
    return place_of(own[-1]) if own else None


def place_of(frame: traceback.FrameSummary) -> SourcePlace:
    """Where a frame is."""
    return SourcePlace(near(frame.filename), frame.lineno or 1, (frame.colno or 0) + 1)


def near(file: str) -> str:
    """A path as one types it here."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


def _all(found: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """It, and what it was raised from; each once."""
    seen: set[int] = set()
    rest = [found]
    while rest:
        each = rest.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            rest += [other for other in (each.__cause__, each.__context__) if other is not None]
            rest += getattr(each, "exceptions", None) or []


def _below_ours(frames: traceback.StackSummary) -> list[traceback.FrameSummary]:
    """The frames without those of the worker, and of what runs coroutines, that come before the user's."""
    position = 0
    while position < len(frames) and frames[position].filename.startswith((_OURS, *_BETWEEN)):
        position += 1
    return list(frames)[position:]


def _guilty(found: traceback.TracebackException) -> traceback.TracebackException:
    """A member of a group says more than the place that gathered them."""
    members = getattr(found, "exceptions", None)
    return _guilty(members[0]) if members else found


def _location(frames: traceback.StackSummary) -> str:
    own = [frame for frame in frames if is_own_file(frame.filename)]
    last = own[-1] if own else frames[-1] if frames else None
    return "" if last is None else f"{last.filename}:{last.lineno} in {last.name}"


def is_own_file(filename: str) -> bool:
    """Whether a file is the user's: none of ours, of Python's or of an installed package of this interpreter."""
    return not filename.startswith((_OURS, "<frozen ", *_LIBRARIES))


def _stored(text: str) -> str:
    kept = excerpt(text.rstrip("\n"), _HEAD, MOST_CHARACTERS - _HEAD)
    return kept.encode("utf-8", "replace").decode()
