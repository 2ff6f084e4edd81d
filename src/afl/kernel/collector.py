"""Python's cyclic garbage collector: not while a burst of work makes many objects that live, and not over all of them.

The collector walks every live object whenever the heap has grown by a quarter, so a burst that builds a large
structure pays for it again and again, and pays for all other large structures with it. Inside `paused()` only the
young objects are looked at, when `sweep_young` is called. A process that has begun its service calls `settle()`.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 50_000  # so many new objects before they are looked at: most are gone by then. Python's own is 700

_guard = threading.Lock()
_inside = 0
_was_enabled = False
_settled = False


@contextmanager
def paused() -> Iterator[None]:
    """No automatic collection until the last one inside leaves; one that was off before stays off."""
    global _inside, _was_enabled
    with _guard:
        if _inside == 0:
            _was_enabled = gc.isenabled()
            gc.disable()
        _inside += 1
    try:
        yield
    finally:
        with _guard:
            _inside -= 1
            if _inside == 0 and _was_enabled:
                gc.enable()


def sweep_young() -> None:
    """Collect what was made lately; costs in proportion to that, not to the heap."""
    gc.collect(1)


def settle() -> None:
    """From now on leave alone what is there already: for a process that has loaded all it needs, and serves.

    Modules, classes and functions are most of the heap, and stay to the end; to walk them again and again is a fifth of
    a worker's time. New objects are looked at more rarely, too. Only the main thread's word counts: in a process that
    does other things beside, it may not be so.
    """
    global _settled
    if threading.current_thread() is threading.main_thread() and not _settled:
        _settled = True
        gc.collect()  # what is garbage already would stay as well
        gc.freeze()
        gc.set_threshold(_YOUNG)
