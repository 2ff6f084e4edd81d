"""What waits for a person: list, show, answer, reject, and what was answered."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from heapq import merge
from itertools import dropwhile
from typing import Annotated, Any

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id
from afl.operations.parameters import ApprovalId, Limit, about
from afl.operations.people.forms import Form, FormError, answer_form, complete
from afl.operations.people.questions import (
    KIND,
    REJECTED,
    Approval,
    ApprovalClosed,
    Questions,
    UnknownApproval,
    find,
    still_open,
    verdict_field,
)
from afl.operations.people.tool_calls import ToolCalls, call_form
from afl.operations.roles import operator
from afl.operations.run import run_store
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskHold, TaskState
from afl.runtime.errors import ResultError
from afl.runtime.evaluation.outcome import check_result
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program import paths
from afl.runtime.task_handlers.elsewhere import Elsewhere
from afl.runtime.types import WorkflowId
from afl.turns.store.approvals import ToolApproval

__all__ = [
    "Answered",
    "Approval",
    "ApprovalClosed",
    "ApprovalView",
    "UnknownApproval",
    "answer",
    "list_approvals",
    "reject",
    "show_approval",
]

_PAGE = 500
_TRIES = 5  # the question may be moved to the next group while it is answered


@dataclass(frozen=True)
class ApprovalView:
    """A question with what is to be known (`given`: the step's parameters), its form, and the answer there was."""

    approval: Approval
    given: dict[str, Any]
    form: Form
    answer: dict[str, Any] | None


@dataclass(frozen=True)
class Answered:
    """An answer that counts."""

    id: str
    run: str
    step: str
    by: str
    rejected: bool
    values: dict[str, Any]
    feedback: str
    turn: str = ""


def list_approvals(
    store: PersistenceAPI,
    *,
    group: Annotated[str, about("Only approvals for this group.")] = "",
    run: Annotated[str, about("Only what this run, or this turn of an agent, waits for.")] = "",
    limit: Limit = 50,
    after: Annotated[str, about("Only those after this one.")] = "",
) -> list[Approval]:
    """List pending approvals, the oldest first: steps of workflows, and tool calls of turns."""
    calls = ToolCalls.of(store)
    if run.startswith("turn_"):
        return calls.waiting_of_turn(run, group)[:limit]
    tasks = _of_run(store, run, group) if run else _waiting(store, group, after, limit)
    questions = Questions(store)
    found = [questions.approval(task) for task in tasks[:limit]]
    asked = [] if run else calls.waiting(group=group, after=after, limit=limit)
    return list(merge(found, asked, key=lambda each: each.id))[:limit]


def _waiting(store: PersistenceAPI, group: str, after: str, limit: int) -> list[TaskDefinition]:
    """Open tasks in the order of the store; after a tool call, those that `list_approvals` has not had before it."""
    chosen = TaskFilter(
        hold=TaskHold.ELSEWHERE, via=f"{KIND}:{group}" if group else KIND, after=after, limit=limit
    )
    if not after or store.get_task(after) is not None:
        return store.find_tasks(chosen)
    last = ""
    while page := store.find_tasks(replace(chosen, after=last, limit=_PAGE)):
        younger = list(dropwhile(lambda task: task.uuid < after, page))
        if younger:
            more = replace(chosen, after=page[-1].uuid)
            return [*younger, *(store.find_tasks(more) if len(younger) < limit else ())]
        last = page[-1].uuid
    return []


def _call(store: PersistenceAPI, id: str) -> ToolApproval | None:
    """The tool call that an id, or enough of it, names; None if it is not that of a call."""
    found = ToolCalls.of(store).named(id)
    if not found or found[0].approval_id == id:
        return found[0] if found else None
    try:
        find(store, id)
    except UnknownApproval:
        if len(found) == 1:
            return found[0]
    raise InputError(f"several approvals start with {id}; write more of the id")


def _of_run(store: PersistenceAPI, run: str, group: str) -> list[TaskDefinition]:
    """All that a run waits for; nobody answers so many at once that they need pages."""
    tasks = store.get_tasks_by_workflow(WorkflowId(run_store.find(store, run).workflow_id))
    asked = [task for task in tasks if task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE]
    kinds = (task.via.partition(":") for task in asked)
    return [
        task
        for task, (kind, _, name) in zip(asked, kinds, strict=True)
        if kind == KIND and group in ("", name)
    ]


def show_approval(store: PersistenceAPI, id: ApprovalId) -> ApprovalView:
    """Show a question, its context and its form, or who answered it and how."""
    if (call := _call(store, id)) is not None:
        approval = ToolCalls.of(store).shown(call)
        given = dict(call.answer) if call.answer is not None else None
        return ApprovalView(approval, dict(call.arguments), call_form(call), given)
    task = find(store, id)
    questions = Questions(store)
    form = answer_form(questions.program(task), task.name, task.params)
    return ApprovalView(questions.approval(task), task.params, form, task.result)


def answer(
    store: PersistenceAPI,
    id: ApprovalId,
    values: Annotated[
        Mapping[str, Any] | None,
        about("Fields of its form by name; those left out keep the values that it shows."),
    ] = None,
    *,
    by: str = "",
) -> Answered:
    """Approve: the step continues with these values, and with those in the form where none is given.

    A tool call of a turn is made with these arguments.

    A plain question needs no values. FormError if they do not match the facet's return clause; then nothing has
    changed. ApprovalClosed if someone answered first, or it expired.
    """
    if (call := _call(store, id)) is not None:
        who, calls = by or operator(), ToolCalls.of(store)
        calls.check_open(call)
        arguments = calls.approve(call, values or {}, who)
        return _answered_call(call, who, values=arguments)
    task = still_open(store, find(store, id))
    questions = Questions(store)
    checked = checked_values(questions, task, values or {})
    return _Answer(questions, by or operator()).send(task, checked)


def checked_values(questions: Questions, task: TaskDefinition, given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer that these values make of the form of a question, for every front end; FormError by field."""
    program = questions.program(task)
    verdict = verdict_field(program, task)
    form = answer_form(program, task.name, task.params)
    filled = complete(form, {**({verdict: True} if verdict else {}), **given})
    try:
        return check_result(program, task.name, filled)
    except ResultError as error:
        raise FormError(
            str(error), {error.field: str(error)}
        ) from error  # nobody's step fails by a slip of the pen


def reject(
    store: PersistenceAPI,
    id: ApprovalId,
    feedback: Annotated[str, about("Why; the workflow can read it.")] = "",
    *,
    by: str = "",
) -> Answered:
    """Refuse: the step fails with the error type Rejected and the feedback as its message, which `catch` can handle.

    If the form is one Boolean, the answer is false instead, and the step continues. A tool call of a turn is not
    made, and its model reads the feedback as the error of the tool.
    """
    if (call := _call(store, id)) is not None:
        who, calls = by or operator(), ToolCalls.of(store)
        calls.check_open(call)
        calls.reject(call, feedback, who)
        return _answered_call(call, who, rejected=True, feedback=feedback)
    task = still_open(store, find(store, id))
    questions = Questions(store)
    verdict = verdict_field(questions.program(task), task)
    refusal = _Answer(questions, by or operator(), feedback, rejects=True)
    return refusal.send(task, {verdict: False} if verdict else None)


def _answered_call(
    call: ToolApproval,
    by: str,
    *,
    values: dict[str, Any] | None = None,
    rejected: bool = False,
    feedback: str = "",
) -> Answered:
    return Answered(
        call.approval_id, "", call.tool_name, by, rejected, values or {}, feedback, call.agent_turn_id
    )


@dataclass(frozen=True)
class _Answer:
    """One person's answer, on its way."""

    questions: Questions
    by: str
    feedback: str = ""
    rejects: bool = False

    def send(self, task: TaskDefinition, values: dict[str, Any] | None) -> Answered:
        """Store it under the task's fence; without values the step fails."""
        store = self.questions.store
        for _ in range(_TRIES):
            if self._store(task, values):
                break
            # Somebody else may be asked by now, and this one was faster.
            task = still_open(store, find(store, task.uuid))
        else:
            raise ApprovalClosed(f"approval {task.uuid} changes hands again and again; answer it once more")
        step = paths.shown(task.step_id, WorkflowId(task.workflow_id))
        return Answered(task.uuid, task.workflow_id, step, self.by, self.rejects, values or {}, self.feedback)

    def _store(self, task: TaskDefinition, values: dict[str, Any] | None) -> bool:
        ended = copy(task)
        note = {"by": self.by, "at": wall_ms(), "rejected": self.rejects, "feedback": self.feedback}
        ended.bridge = {**(task.bridge or {}), "answer": note}
        elsewhere = Elsewhere(self.questions.evaluator)
        if values is not None:
            return elsewhere.complete(ended, values, self._log(task))
        if REJECTED not in (task.retry or {}).get("on", []):
            ended.retry = None  # who said no is not asked again, unless the workflow says so by name
        return elsewhere.fail(ended, self.feedback or f"rejected by {self.by}", REJECTED, self._log(task))

    def _log(self, task: TaskDefinition) -> LogDefinition:
        verb = "rejected" if self.rejects else "approved"
        about = f": {self.feedback}" if self.feedback else ""
        now = wall_ms()
        return LogDefinition(
            uuid=sortable_id(),
            order=now * 1000,
            runner_id=task.workflow_id,
            step_id=task.step_id,
            object_id=task.uuid,
            object_type="task",
            message=f"{verb} by {self.by}{about}",
            time=now,
        )


_LOOKED_THROUGH = 2_000  # of the newest tasks of any kind: stores keep no list of those that people answered


def list_answered(store: PersistenceAPI, *, group: str = "", limit: Limit = 50) -> list[Approval]:
    """Questions that are answered, rejected, expired or canceled, the newest first; of one group, if named."""
    via = f"{KIND}:{group}"
    found = [
        task
        for task in store.get_all_tasks(_LOOKED_THROUGH)
        if task.state != TaskState.PENDING and (task.via == via if group else task.via.startswith(via))
    ]
    questions = Questions(store)
    every = [questions.approval(task) for task in found[:limit]]
    every += ToolCalls.of(store).closed(group=group, limit=limit)
    return sorted(every, key=lambda each: each.answered_at or each.created, reverse=True)[:limit]
