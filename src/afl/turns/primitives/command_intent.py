"""command_intent: a command to a tool or to the system, published once its transaction has committed."""

from __future__ import annotations

from dataclasses import replace

from afl.kernel.database import Transaction
from afl.turns.bus.outbox import store_commands
from afl.turns.context import TurnContext
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import CommandIntent
from afl.turns.model import L0Result, accepted, rejected
from afl.turns.primitives.sources import check_source
from afl.turns.protocol.events import command_message
from afl.turns.statuses import EdgePhase, Primitive
from afl.turns.store.edges import add_edge, edge_row


def command_intent(tx: Transaction, context: TurnContext, intent: CommandIntent) -> L0Result:
    """The edge and the command, in one transaction. The same call again is acknowledged, and published once."""
    place = replace(context, tool_call_id=intent.correlation_id)
    try:
        message = command_message(place, intent.subject, intent.payload)
        check_source(tx, context)
    except ProtocolViolation as violation:
        return rejected(violation.code, str(violation))
    edge = edge_row(
        place,
        Primitive.TOOL_CALL,
        EdgePhase.REQUEST,
        intent.correlation_id,
        metadata={"tool_name": intent.tool_name or message.payload["tool_name"], "subject": intent.subject},
    )
    if not add_edge(tx, edge):
        return accepted({"correlation_id": intent.correlation_id, "idempotent_hit": True})
    stored = store_commands(
        tx, context.project_id, [message], agent_id=context.agent_id, turn_id=context.agent_turn_id
    )
    return accepted({"correlation_id": intent.correlation_id}, stored=stored)
