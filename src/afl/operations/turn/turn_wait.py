"""Waiting for the end of a turn that is known by its id."""

from __future__ import annotations

from collections.abc import Callable

from afl.kernel.settings import Settings
from afl.operations.client import OperationsClient
from afl.operations.parameters import LongPoll
from afl.operations.run.following import A_WHILE, countdown
from afl.operations.turn import turn_reasons, turns
from afl.operations.turn.turn_reasons import TurnReason
from afl.turns.cardbox.deliverable import Delivered

_A_LOOK = 0.5  # seconds that a turn which is over may take to be read
_PATIENCE = 2.0  # seconds after which somebody who waits wants to know whether anybody is at work
_NOBODY_WORKS = ("turn-queued", "turn-dispatched", "turn-answered", "turn-worker-lost", "turn-agent-inactive")


def wait(settings: Settings, turn: str, timeout: LongPoll = 0) -> Delivered | None:
    """What a turn delivered; None if it is not over within so many seconds."""
    with turns.reading(settings) as database:
        found = database.read(lambda tx: turns.find_turn(tx, settings.project, turn))
    return turns.wait(settings, found, max(timeout, _A_LOOK))


def wait_for_delivery(
    client: OperationsClient,
    turn: str,
    timeout: float | None = None,
    *,
    stands: Callable[[TurnReason], None] | None = None,
) -> Delivered | None:
    """The same for as long as it takes, or for so many seconds, through a client that may be remote.

    `stands` is told why, once and soon, if nobody works on the turn; it is waited for all the same.
    """
    left = countdown(timeout)
    longest = A_WHILE if stands is None else _PATIENCE
    while True:
        seconds = left()
        delivered = client.call(wait, turn, min(seconds, longest))
        if delivered is not None or seconds <= longest:
            return delivered
        if stands is not None:
            reason = client.call(turn_reasons.why, turn)
            if reason.code in _NOBODY_WORKS:
                stands(reason)
            longest, stands = A_WHILE, None
