"""The garbage collector while a command loads: it finds nothing in modules, and looks through all of them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ours = False


def take_over() -> None:
    """Collect nothing until `keep_loaded`. For a process that is the command's own; in another nothing changes here."""
    global _ours
    _ours = True
    gc.disable()


def keep_loaded() -> None:
    """Collect from now on, but leave out what is there: it is needed to the end, where that saves most."""
    if _ours and not gc.isenabled():  # else what the work has made would stay too
        gc.freeze()
        gc.enable()


@contextmanager
def loading() -> Iterator[None]:
    """For imports that are made when the command is already at work."""
    if _ours:
        gc.disable()
    try:
        yield
    finally:
        keep_loaded()
