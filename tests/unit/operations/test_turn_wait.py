"""Waiting for a turn: whoever waits is told once if nobody works on it."""

from __future__ import annotations

from typing import Any

import pytest

from afl.client import turn_waits
from afl.operations.turn import turn_reasons, turn_wait
from afl.operations.turn.turn_reasons import TurnReason

DONE: Any = object()


class SlowClient:
    """The turn is over at the third look."""

    def __init__(self, code: str) -> None:
        self.reason = TurnReason("turn_1", "guide", code, "no worker has taken it.", "Start one.", False)
        self.looks: list[float] = []
        self.whys = 0

    def call(self, function: Any, turn: str, seconds: float = 0) -> Any:
        if function is turn_reasons.why:
            self.whys += 1
            return self.reason
        assert function is turn_wait.wait
        self.looks.append(seconds)
        return DONE if len(self.looks) == 3 else None


@pytest.mark.parametrize("code", ["turn-dispatched", "turn-queued", "turn-agent-inactive"])
def test_it_is_told_once_and_soon_that_nobody_works(code: str) -> None:
    client, told = SlowClient(code), []
    assert turn_waits.wait_for_delivery(client, "turn_1", stands=told.append) is DONE
    assert told == [client.reason] and client.whys == 1
    assert client.looks == [2.0, 20.0, 20.0]


@pytest.mark.parametrize("code", ["turn-running", "turn-waits-for-tool", "turn-success"])
def test_nothing_is_told_of_a_turn_that_takes_its_time(code: str) -> None:
    client, told = SlowClient(code), list[TurnReason]()
    assert turn_waits.wait_for_delivery(client, "turn_1", stands=told.append) is DONE
    assert told == []


def test_whoever_does_not_want_to_know_is_not_told() -> None:
    client = SlowClient("turn-dispatched")
    assert turn_waits.wait_for_delivery(client, "turn_1") is DONE
    assert client.whys == 0 and client.looks == [20.0] * 3


def test_a_short_time_is_kept() -> None:
    client = SlowClient("turn-dispatched")
    assert turn_waits.wait_for_delivery(client, "turn_1", 0, stands=lambda reason: None) is None
    assert client.looks == [0.0] and client.whys == 0
