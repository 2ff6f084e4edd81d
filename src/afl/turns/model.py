"""What the rows of a turn are in Python: the head, messages, wait set, and what a primitive answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.codec import decode
from afl.kernel.database import Row
from afl.kernel.lease import LEASE_MS, MAX_DELIVERIES
from afl.kernel.telemetry import Ended
from afl.turns.errors import ErrorCode
from afl.turns.message import Message
from afl.turns.statuses import HeadStatus, InboxStatus, MessageType, ResultStatus, WaitStatus

MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """What keeps turns bounded."""

    max_depth: int = 20  # a turn at this depth is refused
    max_takeovers: int = MAX_DELIVERIES  # how many workers may die on one turn
    lease_ms: int = LEASE_MS
    card_bytes: int = MEBIBYTE
    inline_bytes: int = 64 * 1024  # a larger file is in the blob store, and not in its card
    file_bytes: int = 20 * MEBIBYTE  # a larger file is refused
    request_bytes: int = 50 * MEBIBYTE  # of files in one card, or sent to a model; older ones are left out
    files: int = 100  # in one card
    blob_grace_ms: int = 3_600_000  # a file that no card has after this time is deleted
    blob_days: int = 0  # how long files of the blob store are kept; 0: as long as a card has them


@dataclass(frozen=True, slots=True)
class Gate:
    """The values that a write is fenced by."""

    project_id: str
    agent_id: str
    agent_turn_id: str
    turn_epoch: int
    revision: int


@dataclass(frozen=True, slots=True)
class TurnRef:
    """A turn, addressed from outside; without an epoch whichever is current."""

    project_id: str
    agent_id: str
    agent_turn_id: str
    expected_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The row of `state.agent_state_head`: where one agent is."""

    project_id: str
    agent_id: str
    status: HeadStatus
    active_agent_turn_id: str | None
    active_channel_id: str | None
    turn_epoch: int
    revision: int
    active_recursion_depth: int
    updated_at: int
    parent_step_id: str | None
    trace_id: str | None
    profile_box_id: str | None
    context_box_id: str | None
    output_box_id: str | None
    expecting_correlation_id: str | None
    waiting_tool_count: int
    resume_deadline: int | None
    active_inbox_id: str | None
    owner: str
    lease_until: int
    takeovers: int
    steps: int  # how many this turn has begun
    context_headers: Mapping[str, str]  # of the message that began the turn

    @property
    def leased(self) -> dict[str, Any]:
        """What the result of enqueue says of a turn that was leased."""
        return {"turn_epoch": self.turn_epoch, "output_box_id": self.output_box_id}

    @property
    def gate(self) -> Gate:
        """What a write that builds on this reading must find unchanged."""
        return Gate(
            self.project_id, self.agent_id, self.active_agent_turn_id or "", self.turn_epoch, self.revision
        )

    @classmethod
    def of(cls, row: Row) -> Head:
        values = {name: row[name] for name in cls.__slots__}
        values["status"] = HeadStatus(values["status"])
        values["context_headers"] = decode(values["context_headers"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class InboxRow:
    """A row of `state.agent_inbox`; its columns win over its headers."""

    project_id: str
    inbox_id: str
    agent_id: str
    worker_target: str
    channel_id: str
    message_type: MessageType
    enqueue_mode: str | None
    correlation_id: str | None
    agent_turn_id: str
    turn_epoch: int
    context_headers: Mapping[str, str]
    payload: Mapping[str, Any]
    status: InboxStatus
    retry_count: int
    next_retry_at: int
    last_error: str | None
    defer_reason: str | None
    claimed_by: str
    processed_at: int | None
    archived_at: int | None
    created_at: int
    position: int

    @classmethod
    def of(cls, row: Row) -> InboxRow:
        values = {name: row[name] for name in cls.__slots__}
        values["message_type"] = MessageType(values["message_type"])
        values["status"] = InboxStatus(values["status"])
        values["context_headers"] = decode(values["context_headers"])
        values["payload"] = decode(values["payload"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class WaitingTool:
    """A row of `state.turn_waiting_tools`."""

    agent_turn_id: str
    turn_epoch: int
    tool_call_id: str
    step_id: str
    tool_name: str
    wait_status: WaitStatus
    tool_result_card_id: str | None
    deadline: int
    received_at: int | None
    applied_at: int | None

    @property
    def is_open(self) -> bool:
        """Whether its result is still to be applied."""
        return self.wait_status in (WaitStatus.WAITING, WaitStatus.RECEIVED)

    @classmethod
    def of(cls, row: Row) -> WaitingTool:
        values = {name: row[name] for name in cls.__slots__}
        values["wait_status"] = WaitStatus(values["wait_status"])
        return cls(**values)


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """A free slot of a worker in the process of the sender: that worker may enter a turn for these targets at once."""

    owner: str
    targets: Sequence[str]
    lease_ms: int


@dataclass(frozen=True, slots=True)
class EnteredTurn:
    """A turn that a worker has entered, and the cards of its boxes as they were read."""

    head: Head
    step_id: str
    cards: Sequence[Row]


@dataclass(frozen=True, slots=True)
class EndedTurn:
    """A turn that is over: its head before, the idle head, and the span for its trace."""

    before: Head
    head: Head
    error: str | None = None
    span: Ended | None = None


@dataclass(frozen=True, slots=True)
class L0Result:
    """What a primitive did. Publish the signals once its transaction has committed: `engine.publish(result)`."""

    status: ResultStatus
    error_code: ErrorCode | None = None
    error: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    signals: tuple[Message, ...] = ()  # wake-ups: best effort, after the commit
    stored: int = 0  # rows written to the outbox: the relay publishes them
    ended: EndedTurn | None = None
    entered: EnteredTurn | None = None  # a turn that a worker of this process entered in the same transaction

    @property
    def accepted(self) -> bool:
        return self.status is ResultStatus.ACCEPTED


def accepted(
    payload: Mapping[str, Any] | None = None,
    *,
    signals: tuple[Message, ...] = (),
    stored: int = 0,
    ended: EndedTurn | None = None,
    entered: EnteredTurn | None = None,
) -> L0Result:
    return L0Result(
        ResultStatus.ACCEPTED,
        payload=payload or {},
        signals=signals,
        stored=stored,
        ended=ended,
        entered=entered,
    )


def rejected(code: ErrorCode, why: str) -> L0Result:
    return L0Result(ResultStatus.REJECTED, code, why)


def busy(why: str) -> L0Result:
    return L0Result(ResultStatus.BUSY, ErrorCode.AGENT_BUSY, why)
