"""The transitions of a turn, each a function over an open transaction.

A transition is given the head as it was read, or as the last transition returned it. It raises FencedError when the
head has changed since, and the transaction then has no effect.
"""

from afl.turns.cardbox.deliverable import Ending, fallback_content
from afl.turns.transitions.ending import fail_turn, fallback_deliverable, finish, stop_turn
from afl.turns.transitions.running import Suspended, enter_running, next_step, note, suspend
from afl.turns.transitions.waiting import (
    Applied,
    apply_early,
    apply_result,
    extend_wait,
    record_timeouts,
    resume,
)

__all__ = [
    "Applied",
    "Ending",
    "Suspended",
    "apply_early",
    "apply_result",
    "enter_running",
    "extend_wait",
    "fail_turn",
    "fallback_content",
    "fallback_deliverable",
    "finish",
    "next_step",
    "note",
    "record_timeouts",
    "resume",
    "stop_turn",
    "suspend",
]
