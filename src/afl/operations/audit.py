"""The audit log: every action, who did it, from where, and what came of it; what was refused too.

It is kept as entries of the runtime's log under a name that no run has, so every kind of store has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.operations.parameters import Limit, Position
from afl.operations.roles import Caller
from afl.runtime.entities import LogDefinition, NoteType
from afl.runtime.persistence import PersistenceAPI

AUDIT = "afl:audit"
_LONGEST = 1_000
DONE, REFUSED, FAILED = "done", "refused", "failed"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One action: `operation` by its name in the catalog, `outcome` is done, refused or failed."""

    id: str
    time: int
    who: str
    role: str
    origin: str
    operation: str
    subject: str
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Actions, newest first; `next` is what to give as `before` for the page behind, 0 on the last."""

    entries: list[AuditEntry]
    next: int


def note(
    store: PersistenceAPI, caller: Caller, operation: str, subject: str, outcome: str, message: str = ""
) -> None:
    """Write down one action."""
    store.save_log(entry(caller, operation, subject, outcome, message))


def entry(caller: Caller, operation: str, subject: str, outcome: str, message: str = "") -> LogDefinition:
    """The record of one action."""
    return LogDefinition(
        uuid=sortable_id(),
        order=0,
        runner_id=AUDIT,
        object_id=_told(subject),
        object_type=_told(operation),
        note_originator=caller.name,
        note_type=NoteType.INFO if outcome == DONE else NoteType.WARNING,
        message=_told(message),
        state=outcome,
        details={"role": str(caller.role), "origin": caller.origin},
        time=wall_ms(),
    )


def _told(text: str) -> str:
    """A text of the caller's as every store takes it."""
    return text[:_LONGEST].replace("\0", "\N{REPLACEMENT CHARACTER}")


def read_audit(store: PersistenceAPI, *, before: Position = 0, limit: Limit = 50) -> AuditPage:
    """A page of what was done, newest first."""
    found = store.get_logs_before(AUDIT, before, limit + 1)
    page = found[:limit]
    return AuditPage([_entry(log) for _, log in page], page[-1][0] if len(found) > limit else 0)


def _entry(log: LogDefinition) -> AuditEntry:
    details: dict[str, Any] = log.details
    return AuditEntry(
        id=log.uuid,
        time=log.time,
        who=log.note_originator,
        role=str(details.get("role", "")),
        origin=str(details.get("origin", "")),
        operation=log.object_type,
        subject=log.object_id,
        outcome=log.state,
        message=log.message,
    )
