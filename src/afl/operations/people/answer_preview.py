"""What several questions would be answered, before anybody does it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.errors import AgentFlowError, InputError
from afl.operations.parameters import about
from afl.operations.people.approvals import checked_values
from afl.operations.people.questions import Approval, Questions, find, still_open
from afl.operations.people.tool_calls import ToolCalls, checked_arguments
from afl.runtime.persistence import PersistenceAPI
from afl.turns.store.approvals import ToolApproval

MOST = 1_000
Ids = Annotated[list[str], Meta(max_length=MOST, description="Ids of approvals, or enough of each.")]


@dataclass(frozen=True)
class PlannedAnswer:
    """What one question would be answered if it is approved, or the `problem` that keeps it from that.

    `approval` is None if there is none of that id.
    """

    id: str
    approval: Approval | None
    values: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


def preview_answers(
    store: PersistenceAPI,
    ids: Ids,
    values: Annotated[
        Mapping[str, Any] | None, about("Fields to set in each form; the others keep the value shown.")
    ] = None,
) -> list[PlannedAnswer]:
    """Show what approving several questions would answer to each, and which cannot be answered. Nothing changes."""
    if len(ids) > MOST:
        raise InputError(f"at most {MOST:,} approvals at once, got {len(ids):,}")
    questions = Questions(store)
    return [_planned(questions, id, values or {}) for id in dict.fromkeys(ids)]


def _planned(questions: Questions, id: str, values: Mapping[str, Any]) -> PlannedAnswer:
    calls = ToolCalls.of(questions.store)
    if len(found := calls.named(id)) == 1:
        return _planned_call(calls, found[0], values)
    try:
        task = find(questions.store, id)
    except AgentFlowError as error:
        return PlannedAnswer(id, None, problem=str(error))
    approval = questions.approval(task)
    try:
        still_open(questions.store, task)
        return PlannedAnswer(task.uuid, approval, checked_values(questions, task, values))
    except AgentFlowError as error:
        return PlannedAnswer(task.uuid, approval, problem=str(error))


def _planned_call(calls: ToolCalls, call: ToolApproval, values: Mapping[str, Any]) -> PlannedAnswer:
    approval = calls.shown(call)
    try:
        calls.check_open(call)
        return PlannedAnswer(call.approval_id, approval, checked_arguments(call, values))
    except AgentFlowError as error:
        return PlannedAnswer(call.approval_id, approval, problem=str(error))
