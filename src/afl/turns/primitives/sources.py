"""Who may call a primitive: an agent of the roster, or an actor of the system or of a tool."""

from __future__ import annotations

from afl.kernel.database import Transaction, queries
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode, ProtocolViolation

Q = queries("afl.turns.store", "sql/primitives")


def check_source(tx: Transaction, context: TurnContext) -> None:
    """Refuse an actor that is not known."""
    row = (
        None
        if context.is_outside
        else tx.one(Q.source_status, project=context.project_id, source=context.agent_id)
    )
    check_source_status(context, row["status"] if row is not None else None)


def check_source_status(context: TurnContext, status: str | None) -> None:
    if context.is_outside or status == "active":
        return
    why = "is not active" if status is not None else "is not in the roster"
    raise ProtocolViolation(
        f"source {context.agent_id!r} {why} of {context.project_id}; actors outside of it are called sys.* or tool.*",
        ErrorCode.INVALID_SOURCE_ACTOR,
    )


def check_project(context: TurnContext, project_id: str) -> None:
    """Refuse a caller of another project."""
    if context.project_id != project_id:
        raise ProtocolViolation(
            f"{context.agent_id!r} is of project {context.project_id!r}, the message of {project_id!r}",
            ErrorCode.INVALID_SOURCE_ACTOR,
        )
