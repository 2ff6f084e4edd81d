"""What to do with a tool's answer: a decision over what was read, with no tables in it.

The lines are those of the protocol's resume list, in its order. Wait set and commands are one transaction, so there is
no answer that comes too early, and none is put off because the turn still runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afl.turns.cardbox.cards import Card
from afl.turns.model import Head, InboxRow, WaitingTool
from afl.turns.statuses import AfterExecution, CardType, HeadStatus, TaskStatus, WaitStatus

_PAYLOAD = frozenset({"status", "after_execution", "tool_result_card_id"})
_OPEN = frozenset({WaitStatus.WAITING, WaitStatus.RECEIVED})


class Act(StrEnum):
    """What becomes of the message."""

    APPLY = "apply"
    CONSUME = "consume"
    DEFER = "defer"
    FAIL = "fail"  # the turn, since the protocol was broken


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is for the row, or the code with which the turn fails; `delay` in seconds."""

    act: Act
    reason: str = ""
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read for one message, in one transaction."""

    row: InboxRow
    head: Head | None = None
    card: Card | None = None
    wait: WaitingTool | None = None
    thought: Card | None = None


def decide(read: Reading) -> Decision:
    """The first line that fits."""
    return _of_the_turn(read) or _of_the_payload(read.row.payload) or _of_the_card(read) or _of_the_wait(read)


def _of_the_turn(read: Reading) -> Decision | None:
    row, head = read.row, read.head
    if not row.correlation_id:
        return Decision(Act.FAIL, "missing_tool_call_id")
    if head is None:
        return Decision(Act.DEFER, "state_not_found", 2.0)
    if head.active_agent_turn_id != row.agent_turn_id or row.turn_epoch > head.turn_epoch:
        return Decision(Act.CONSUME, "another_turn")
    if head.status not in (HeadStatus.RUNNING, HeadStatus.SUSPENDED):
        return Decision(Act.CONSUME, "turn_not_waiting")
    return None


def _of_the_payload(payload: Mapping[str, Any]) -> Decision | None:
    if not _PAYLOAD.issuperset(payload):
        return Decision(Act.FAIL, "invalid_payload")
    if not payload.get("tool_result_card_id"):
        return Decision(Act.FAIL, "missing_tool_result_card")
    if payload.get("after_execution") not in frozenset(AfterExecution):
        return Decision(Act.FAIL, "invalid_after_execution")
    return None


def _of_the_card(read: Reading) -> Decision | None:
    card = read.card
    if card is None:
        return Decision(Act.DEFER, "card_not_found", 1.5)
    if card.type != CardType.TOOL_RESULT or card.tool_call_id != read.row.correlation_id:
        return Decision(Act.FAIL, "wrong_tool_result_card")
    return None if card.step_id else Decision(Act.FAIL, "card_without_step")


def _of_the_wait(read: Reading) -> Decision:
    if read.wait is None:
        return Decision(Act.CONSUME, "not_waited_for")
    if read.wait.wait_status not in _OPEN:
        return Decision(Act.CONSUME, "already_applied")
    if read.thought is None or not read.thought.tool_calls:
        return Decision(Act.FAIL, "missing_thought")
    return Decision(Act.APPLY)


@dataclass(frozen=True, slots=True)
class Ending:
    """The result that ends a turn, and how."""

    card: Card
    status: TaskStatus


def ending_of(results: Sequence[Card]) -> Ending | None:
    """Whether one of a step's results ends the turn: the first that failed to, else the first; None: it goes on."""
    last = [card for card in results if card.after_execution == AfterExecution.TERMINATE]
    if not last:
        return None
    chosen = next((card for card in last if _status(card) is not TaskStatus.SUCCESS), last[0])
    return Ending(chosen, _status(chosen))


def _status(card: Card) -> TaskStatus:
    """What a card says came of the call; a word that nobody knows is a failure."""
    said = card.content.get("status")
    return TaskStatus(said) if said in frozenset(TaskStatus) else TaskStatus.FAILED
