"""join: a turn waits for several others (request), and has them (response). Edges only."""

from __future__ import annotations

from afl.kernel.database import Transaction
from afl.turns.context import TurnContext
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import JoinIntent
from afl.turns.model import L0Result, accepted, rejected
from afl.turns.primitives.sources import check_source
from afl.turns.statuses import EdgePhase, Primitive
from afl.turns.store.edges import add_edge, edge_row, find_edge


def join(tx: Transaction, context: TurnContext, intent: JoinIntent) -> L0Result:
    """Record one side of a join. A response answers a request of the same depth."""
    try:
        check_source(tx, context)
        if intent.phase is EdgePhase.RESPONSE:
            _check_request(tx, context, intent)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    row = edge_row(context, Primitive.JOIN, intent.phase, intent.correlation_id, metadata=intent.metadata)
    written = add_edge(tx, row)
    return accepted({"correlation_id": intent.correlation_id, "duplicate": not written})


def _check_request(tx: Transaction, context: TurnContext, intent: JoinIntent) -> None:
    asked = find_edge(tx, context.project_id, intent.correlation_id, Primitive.JOIN, EdgePhase.REQUEST)
    if asked is None:
        raise ProtocolViolation(f"join {intent.correlation_id!r} was never asked for", ErrorCode.UNKNOWN_TURN)
    if asked.recursion_depth != context.recursion_depth:
        raise ProtocolViolation(
            f"join {intent.correlation_id!r} was asked for at depth {asked.recursion_depth}, "
            f"answered at {context.recursion_depth}"
        )
