"""Children that a function of the user forked: one that returns from it must not go on as the worker."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

_generation = 0


def generation() -> int:
    """How often there was a fork on the way to this process: another number than before a call, and we are a child."""
    return _generation


def end_child_since(before: int, what: str, error: BaseException | None) -> None:
    """End this process if it was forked since `before`: by `what`, which raised `error` if it did not return."""
    if _generation != before:
        _end(what, error)


def _end(what: str, error: BaseException | None) -> NoReturn:
    """At once: locks, threads and connections are those of the parent."""
    if isinstance(error, SystemExit):
        os._exit(error.code if isinstance(error.code, int) else int(error.code is not None))
    came = "returned" if error is None else f"raised {type(error).__name__}"
    told = (
        f"process {os.getpid()}, which {what} forked, {came} there and ends here; "
        "end such a process with os._exit(), or use subprocess or multiprocessing\n"
    )
    os.write(2, told.encode(errors="replace"))
    os._exit(1)


def _count() -> None:
    global _generation
    _generation += 1


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_count)
