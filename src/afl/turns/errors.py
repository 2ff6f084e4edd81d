"""Errors of turns, and the codes by which an L0Result and an `evt.agent.*.task` name what went wrong.

InputError
├── ProtocolViolation     a message breaks the protocol; it has a code, and nothing was written
│   ├── CardError         a card's content does not fit its type, or is too large
│   └── SubjectError      a subject cannot be read or made
├── ContentTooLarge       a file is larger than the limit
AgentFlowError
├── TurnFailed            a turn did not deliver the result that was asked for
└── ContentUnavailable    the bytes of a file cannot be read or written
StoreError
└── BusUnavailable        the server behind the bus does not answer

A write by a worker that no longer holds the turn raises the kernel's FencedError, and has no effect.
"""

from __future__ import annotations

from enum import StrEnum

from afl.kernel.errors import AgentFlowError, InputError, StoreUnavailable


class ErrorCode(StrEnum):
    """Why a primitive refused, or how a turn failed."""

    PROTOCOL_VIOLATION = "protocol_violation"
    INVALID_SOURCE_ACTOR = "invalid_source_actor"
    RECURSION_DEPTH_EXCEEDED = "recursion_depth_exceeded"
    AGENT_BUSY = "agent_busy"
    STORAGE_ERROR = "storage_error"
    INTERNAL_ERROR = "internal_error"
    UNKNOWN_AGENT = "unknown_agent"
    UNKNOWN_TURN = "unknown_turn"
    UNKNOWN_BOX = "unknown_box"
    UNKNOWN_CARD = "unknown_card"
    UNKNOWN_TOOL = "unknown_tool"
    FOREIGN_AUTHOR = "foreign_author"
    FORBIDDEN_FIELD = "forbidden_field"
    MALFORMED_PAYLOAD = "malformed_payload"
    MALFORMED_CARD = "malformed_card"
    MALFORMED_SCHEMA = "malformed_schema"
    CARD_TOO_LARGE = "card_too_large"
    STALE_TURN = "stale_turn"
    STOPPED = "stopped"
    TAKEOVERS_EXCEEDED = "takeovers_exceeded"


class ProtocolViolation(
    InputError,
    hint="Correct the message; its `code` says which rule it breaks, see docs/turns-protocol.md.",
):
    """A message breaks the protocol; nothing was written."""

    code: ErrorCode

    def __init__(self, text: str, code: ErrorCode = ErrorCode.PROTOCOL_VIOLATION) -> None:
        super().__init__(text)
        self.code = code


class CardError(ProtocolViolation, hint="The content must match its type and be smaller than 1 MiB."):
    """A card is invalid: its content does not match its type, or it is too large."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.MALFORMED_CARD) -> None:
        super().__init__(text, code)


class SubjectError(ProtocolViolation, hint="Use letters, digits, `_` and `-` in the parts of a subject."):
    """A subject has too few parts, or parts with signs that it cannot hold."""


class ContentTooLarge(InputError, hint="Give smaller files, or fewer at once, or raise AFL_MAX_FILE_BYTES."):
    """A file is larger than the limit, or there are too many at once; nothing was stored."""


class ContentUnavailable(
    AgentFlowError,
    hint="Give all workers and servers of a store the same AFL_BLOBS, and check that it is there.",
    status=503,
):
    """The bytes of a file cannot be read or written: the blob store is away, lacks them, or has others."""


class TurnFailed(AgentFlowError, hint="`afl turns show TURN` has what the agent did."):
    """A turn ended without the result that was asked for; `error_code` is that of its end."""

    def __init__(self, text: str, error_code: str | None = None) -> None:
        super().__init__(text)
        self.error_code = error_code


class BusUnavailable(
    StoreUnavailable,
    hint="Start NATS or correct AFL_BUS; turns continue in the meantime, and nothing is lost.",
):
    """The server of the bus does not answer; the outbox is published when it does."""
