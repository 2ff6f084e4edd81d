"""How much work a text costs as it grows: linear work passes, quadratic work does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from afl.kernel.errors import AgentFlowError

SIZES = (4 * 1024, 64 * 1024, 1024 * 1024)
MOST = 64
"""Each size is 16 times the one before: linear work is 16 times as much, quadratic 256 times."""

_FLOOR_SECONDS = 0.004
_TRIES = 3


def assert_bounded(
    do: Callable[[str], object], make: Callable[[int], str], sizes: tuple[int, ...] = SIZES
) -> None:
    """`do` takes at most 64 times as much for 16 times the text; that it refuses the text is as good as any answer.

    Work is the processor time of this process, the least of a few tries, so that other processes do not count. What
    is less than the floor counts as the floor: there a page fault would decide.
    """
    before = max(_FLOOR_SECONDS, _work(do, make(sizes[0])))
    for size in sizes[1:]:
        text = make(size)
        limit = MOST * before
        spent = _work(do, text, enough=limit)
        assert spent <= limit, f"{size:,} characters take {spent:.3f} s, a sixteenth of them {before:.3f} s"
        before = max(_FLOOR_SECONDS, spent)


def _work(do: Callable[[str], object], text: str, enough: float = 0.0) -> float:
    """The least of a few tries; the first that is not more than `enough` will do."""
    least = float("inf")
    for _ in range(_TRIES):
        begun = time.process_time()
        with suppress(AgentFlowError):
            do(text)
        least = min(least, time.process_time() - begun)
        if least <= enough:
            break
    return least
