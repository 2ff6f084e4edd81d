"""The transitions of a head, each a function over an open transaction.

A transition is given the head as it was read, or as the last transition returned it. When the head has moved on
since, it raises FencedError, and the transaction that it belongs to has no effect.
"""

from afl.turns.cardbox.delivering import Ending, fallback_content
from afl.turns.store.heads.ending import fail_turn, fallback_deliverable, finish, stop_turn
from afl.turns.store.heads.reading import head_of_turn, list_heads, read_head, read_waiting
from afl.turns.store.heads.running import Suspended, enter_running, next_step, note, suspend
from afl.turns.store.heads.waiting import (
    Applied,
    apply_early,
    apply_result,
    extend_wait,
    record_timeouts,
    renew,
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
    "head_of_turn",
    "list_heads",
    "next_step",
    "note",
    "read_head",
    "read_waiting",
    "record_timeouts",
    "renew",
    "resume",
    "stop_turn",
    "suspend",
]
