"""Waiting for the end of a turn that is known by its id."""

from __future__ import annotations

from afl.kernel.settings import Settings
from afl.operations.bounds import LongPoll
from afl.operations.desk import Desk
from afl.operations.run.following import A_WHILE, countdown
from afl.operations.turn import turns
from afl.turns.delivered import Delivered

_A_LOOK = 0.5  # seconds that a turn which is over may take to be read


def wait(settings: Settings, turn: str, timeout: LongPoll = 0) -> Delivered | None:
    """What a turn delivered; None if it is not over within so many seconds."""
    with turns.reading(settings) as database:
        found = database.read(lambda tx: turns.find_turn(tx, settings.project, turn))
    return turns.wait(settings, found, max(timeout, _A_LOOK))


def wait_for_delivery(desk: Desk, turn: str, timeout: float | None = None) -> Delivered | None:
    """The same for as long as it takes, or for so many seconds, at a desk that may be far away."""
    left = countdown(timeout)
    while True:
        seconds = left()
        delivered = desk.do(wait, turn, min(seconds, A_WHILE))
        if delivered is not None or seconds <= A_WHILE:
            return delivered
