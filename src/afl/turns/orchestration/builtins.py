"""The built-in tools of delegation, performed in the transaction of the step that calls them.

So the call and its effect are stored together. Nothing is written before a request was checked: a refused request is a
failed outcome for the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.turns.message import Message
from afl.turns.orchestration.child import Child, ChildSource, assign, checked_child
from afl.turns.orchestration.memory import perform_memory
from afl.turns.orchestration.provision import provision
from afl.turns.orchestration.requests import (
    MEMORY,
    AskExpert,
    Assignment,
    LaunchPrincipal,
    ProvisionAgent,
    read_request,
)
from afl.turns.statuses import DepthPolicy, EdgePhase, MessageType, Primitive
from afl.turns.store.edges import Q, edge_row
from afl.turns.tools.outcome import Outcome, failed, outcome_of

AUTHOR = "sys.pmo"


@dataclass(frozen=True, slots=True)
class BuiltinResult:
    """An outcome, or a wait of so many milliseconds; and the messages to publish after the commit."""

    outcome: Outcome | None
    signals: Sequence[Message] = ()
    wait_ms: int = 0


def perform(tx: Transaction, source: ChildSource, name: str, arguments: Mapping[str, Any]) -> BuiltinResult:
    """Perform a built-in; a request that is refused is a failed outcome."""
    performed = _performed(tx, source, name, arguments)
    record_call(tx, source, name)
    return performed


def record_call(tx: Transaction, source: ChildSource, name: str) -> None:
    """The request and response edges of a call that was answered at once."""
    asked, head = source.context, source.head
    request = edge_row(
        asked, Primitive.TOOL_CALL, EdgePhase.REQUEST, source.tool_call_id, metadata={"tool_name": name}
    )
    answer = edge_row(
        asked.acting_as(AUTHOR),
        Primitive.REPORT,
        EdgePhase.RESPONSE,
        source.tool_call_id,
        target_agent_id=head.agent_id,
        target_turn_id=head.active_agent_turn_id or "",
        metadata={"message_type": str(MessageType.TOOL_RESULT)},
    )
    tx.many(Q.add_new_edge, [request, answer])


def _performed(
    tx: Transaction, source: ChildSource, name: str, arguments: Mapping[str, Any]
) -> BuiltinResult:
    try:
        if name == "provision_agent":
            told = provision(tx, source, read_request(ProvisionAgent, arguments, name))
            return BuiltinResult(outcome_of(told, tool=name))
        if name in MEMORY:
            return BuiltinResult(outcome_of(perform_memory(tx, source.head, name, arguments), tool=name))
        assignment, extra = _assignment(source, name, arguments)
        child = checked_child(tx, source, assignment, extra)
    except InputError as error:
        return BuiltinResult(failed(str(getattr(error, "code", "refused")), str(error)))
    return _assign(tx, source, child, name)


def _assignment(
    source: ChildSource, name: str, arguments: Mapping[str, Any]
) -> tuple[Assignment, Sequence[str]]:
    """The assignment, and further boxes of the caller that the child may read."""
    if name == "ask_expert":
        asked = read_request(AskExpert, arguments, name)
        extra = (source.output_box_id,) if asked.include_history else ()
        return Assignment("new", asked.expert_profile, asked.question), extra
    if name == "launch_principal":
        launch = read_request(LaunchPrincipal, arguments, name)
        return Assignment("new", launch.profile_name, launch.instruction), ()
    return read_request(Assignment, arguments, name), ()


def _assign(tx: Transaction, source: ChildSource, child: Child, name: str) -> BuiltinResult:
    made, result = assign(tx, source, child, correlation_id=source.tool_call_id, policy=DepthPolicy.DESCEND)
    if not result.accepted:
        return BuiltinResult(failed(str(result.error_code), result.error or "the turn was refused"))
    told = {
        "status": "accepted",
        "agent_id": made.agent_id,
        "agent_turn_id": result.payload["agent_turn_id"],
        "context_box_id": made.context_box_id,
        "output_box_id": result.payload.get("output_box_id", made.output_box_id),
    }
    if "turn_epoch" in result.payload:
        told["turn_epoch"] = result.payload["turn_epoch"]
    return BuiltinResult(outcome_of(told, tool=name), result.signals)
