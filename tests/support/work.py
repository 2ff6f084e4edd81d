"""How much work a text costs as it grows: linear work passes, quadratic work does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

from afl.kernel.errors import AgentFlowError

SIZES = (4 * 1024, 64 * 1024, 1024 * 1024)
MOST = 64
"""Each size is 16 times the one before: linear work is 16 times as much, quadratic 256 times."""

_FLOOR_SECONDS = 0.004
_TRIES = 5


def assert_bounded(
    do: Callable[[str], object], make: Callable[[int], str], sizes: tuple[int, ...] = SIZES
) -> None:
    """`do` takes at most 64 times as much for 16 times the text; that it refuses the text is as good as any answer.

    Work is the processor time of this process, so that other processes do not count. What is less than the floor
    counts as the floor: there a page fault would decide. A processor may be several times as fast in one second as
    in the next: what seems too much is measured again, the shorter text right before the longer one.
    """
    for size, longer in pairwise(sizes):
        short, long = make(size), make(longer)
        for _ in range(_TRIES):
            before = max(_FLOOR_SECONDS, _work(do, short))
            spent = _work(do, long)
            if spent <= MOST * before:
                break
        else:
            raise AssertionError(f"{longer:,} characters take {spent:.3f} s, {size:,} take {before:.3f} s")


def _work(do: Callable[[str], object], text: str) -> float:
    """The seconds of processor time that `do` takes for the text."""
    begun = time.process_time()
    with suppress(AgentFlowError):
        do(text)
    return time.process_time() - begun
