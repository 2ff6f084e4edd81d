"""`python -m bench.hops`: the path of one event task through `afl.run`, function by function.

A hop is a call from a function of one file to a function of another in which the task, or something that holds it (a
claim, an execution, a result, an outcome, a batch of them), is passed on. Each pair of functions counts once. Exit code
1 if there are more hops than MOST_HOPS.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import afl
from afl.runtime.entities import TaskDefinition

MOST_HOPS = 20
SOURCE = Path(afl.__file__).parent
PROGRAM = """
event facet Double(n: Long) => (m: Long)
workflow Path(n: Long) => (m: Long) andThen {
    only = Double(n = $.n)
    yield Path(m = only.m)
}
"""
_DEPTH = 3  # a batch of results holds results, which hold tasks


def holds_task(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value is a task, or an object of AgentFlow or a collection that holds one."""
    if isinstance(value, TaskDefinition):
        return True
    if depth == 0:
        return False
    if isinstance(value, (list, tuple, set)):
        return any(holds_task(each, depth - 1) for each in value)
    if isinstance(value, dict):
        return any(holds_task(each, depth - 1) for each in value.values())
    if type(value).__module__.startswith("afl.") and type(value).__name__ in CARRIERS:
        names = getattr(type(value), "__slots__", ()) or vars(value)
        return any(holds_task(getattr(value, name, None), depth - 1) for name in names)
    return False


CARRIERS = ("Execution", "TaskResult", "Report", "Outcome", "IterationChanges", "HandlerContext")


class Path_:
    """The hops so far, in their order."""

    def __init__(self) -> None:
        self.hops: dict[tuple[str, str], None] = {}

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """For `sys.setprofile`."""
        caller = frame.f_back
        if event != "call" or caller is None:
            return
        while caller is not None and not _is_ours(caller):  # through the standard library: a thread, a queue
            caller = caller.f_back
        if caller is None or not _is_ours(frame) or caller.f_code.co_filename == frame.f_code.co_filename:
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(holds_task(frame.f_locals.get(name)) for name in names if name != "self"):
            self.hops.setdefault((_name(caller), _name(frame)))


def _is_ours(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(str(SOURCE)) and not frame.f_code.co_name.startswith("<")


def _name(frame: FrameType) -> str:
    file = Path(frame.f_code.co_filename).relative_to(SOURCE)
    return f"{file}:{frame.f_code.co_qualname}"


def measure() -> list[tuple[str, str]]:
    """The hops of the second of two runs: the first one loads what is loaded once."""
    path = Path_()
    for profiled in (False, True):
        if profiled:
            threading.setprofile(path.profile)
            sys.setprofile(path.profile)
        try:
            afl.run(PROGRAM, inputs={"n": 21}, handlers={"Double": lambda n: {"m": 2 * n}}, store="memory://")
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]
    return list(path.hops)


def main() -> int:
    """Print the path."""
    hops = measure()
    for caller, callee in hops:
        print(f"{caller}  ->  {callee}")
    print(f"{len(hops)} hops, at most {MOST_HOPS}")
    return 0 if len(hops) <= MOST_HOPS else 1


if __name__ == "__main__":
    sys.exit(main())
