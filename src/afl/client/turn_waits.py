"""Waiting for a turn through a client that may be remote: by repeated long polls."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from afl.client.run_waits import A_WHILE, across_outages, countdown
from afl.client.store_client import OperationsClient
from afl.operations.turn import turn_reasons
from afl.operations.turn.turn_reasons import TurnReason
from afl.operations.turn.turn_wait import wait
from afl.turns.cardbox.deliverable import Delivered

_PATIENCE = 2.0  # seconds after which somebody who waits wants to know whether anybody is at work
_NOBODY_WORKS = ("turn-queued", "turn-dispatched", "turn-answered", "turn-worker-lost", "turn-agent-inactive")


def wait_for_delivery(
    client: OperationsClient,
    turn: str,
    timeout: float | None = None,
    *,
    stands: Callable[[TurnReason], None] | None = None,
) -> Delivered | None:
    """What a turn delivers, for as long as it takes, or None after so many seconds.

    `stands` is told why, once and soon, if nobody works on the turn; it is waited for all the same.
    """
    left = countdown(timeout)
    longest = A_WHILE if stands is None else _PATIENCE
    while True:
        seconds = min(left(), longest)
        delivered = across_outages(partial(client.call, wait, turn, seconds), left)
        if delivered is not None or left() <= 0:
            return delivered
        if stands is not None:
            reason = across_outages(partial(client.call, turn_reasons.why, turn), left)
            if reason.code in _NOBODY_WORKS:
                stands(reason)
            longest, stands = A_WHILE, None
