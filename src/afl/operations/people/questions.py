"""Questions to people: tasks that wait for a person, as people see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError, InputError, NotFoundError
from afl.operations.run.cut_values import cut
from afl.operations.spans import ago, date
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.entities.timeouts import TIMEOUT_ERROR
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.types import WorkflowId

KIND = "human"
REJECTED = "Rejected"  # the error type of a step that somebody refused


class UnknownApproval(NotFoundError, hint="`afl approvals` lists the pending approvals."):
    """Nothing of that id waits for a person, or ever did."""


class ApprovalClosed(
    AgentFlowError,
    hint="Nothing to do: the first answer counts; `afl approvals show ID` shows it.",
    status=409,
):
    """It was answered, expired or canceled before; this answer had no effect."""


@dataclass(frozen=True)
class Approval:
    """One question. `state` is open, waiting (for its turn, or its run), answered, rejected, expired, failed, canceled.

    `plain` ones are approved or rejected, and nothing else is asked. Times are of the wall clock, 0 for none; `asked`
    are those who were asked before `group` and did not answer in time. `given` are the values to decide on, with long
    ones cut. A tool call of a turn has `turn` and `agent` instead of a run; `facet` is the tool.
    """

    id: str
    group: str
    title: str
    state: str
    facet: str
    run: str
    workflow: str
    step: str
    step_id: str
    plain: bool
    created: int
    expires: int
    escalates: int
    escalate_to: str
    asked: list[str]
    answered_by: str
    answered_at: int
    feedback: str
    given: dict[str, Any]
    turn: str = ""
    agent: str = ""


def find(store: PersistenceAPI, id: str) -> TaskDefinition:
    """The task of a question, by its id, enough of it, or the id of a run that waits for one answer.

    UnknownApproval if there is none.
    """
    task = store.get_task(id) or _only_one_of_run(store, id)
    if task is None and id:
        waits = store.find_tasks(TaskFilter(prefix=id, via=KIND, hold=TaskHold.ELSEWHERE, limit=2))
        found = waits or store.find_tasks(TaskFilter(prefix=id, via=KIND, limit=2))
        if len(found) > 1:
            raise InputError(f"several approvals start with {id}; write more of the id")
        task = found[0] if found else None
    if task is None or not task.via.startswith(f"{KIND}:"):
        raise UnknownApproval(
            f"there is no approval {id!r} in this store; `afl approvals` lists the pending ones"
        )
    return task


def _only_one_of_run(store: PersistenceAPI, run: str) -> TaskDefinition | None:
    """What the run waits for, if that is one answer; if it waits for none, the question that was answered last."""
    tasks = [task for task in store.get_tasks_by_workflow(WorkflowId(run)) if task.via.startswith(f"{KIND}:")]
    asked = [task for task in tasks if task.state == TaskState.PENDING]
    if asked:
        return asked[0] if len(asked) == 1 else None
    return max(tasks, key=lambda task: task.updated, default=None)


def is_plain(program: Program, facet: str) -> bool:
    """Whether a facet asks for a yes or no only."""
    called = program.declaration(facet)
    returns = (called.returns if called is not None else None) or ()
    return not returns or (len(returns) == 1 and returns[0].type == "Boolean")


def verdict_field(program: Program, task: TaskDefinition) -> str:
    """The name of the one Boolean that is asked for; empty if it is not that simple."""
    called = program.declaration(task.name)
    returns = (called.returns if called is not None else None) or ()
    return returns[0].name if returns and is_plain(program, task.name) else ""


def still_open(store: PersistenceAPI, task: TaskDefinition) -> TaskDefinition:
    """The task, if it can be answered; ApprovalClosed if it cannot any more."""
    if task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE:
        return task
    raise closed(Questions(store).approval(task))


def closed(approval: Approval) -> ApprovalClosed:
    """The error of an answer that comes too late; it says who answered first."""
    if approval.state == "waiting":
        return ApprovalClosed(f"approval {approval.id} cannot be answered yet: it waits for its turn")
    by = f" by {approval.answered_by}" if approval.answered_by else ""
    at = f", {ago(approval.answered_at)} ({date(approval.answered_at)})" if approval.answered_at else ""
    verb = "has" if approval.state in ("expired", "failed") else "was"
    return ApprovalClosed(
        f"approval {approval.id} {verb} {approval.state}{by} already{at}; this answer has no effect"
    )


class Questions:
    """One look at the questions of a store; programs are read once."""

    def __init__(self, store: PersistenceAPI) -> None:
        self.store = store
        self.evaluator = Evaluator(store)
        self._ahead = wall_ms() - store.now()
        self._workflows: dict[str, str] = {}

    def program(self, task: TaskDefinition) -> Program:
        return self.evaluator.programs.of_run(WorkflowId(task.workflow_id))

    def approval(self, task: TaskDefinition) -> Approval:
        """The task as people see it."""
        bridge = task.bridge or {}
        answered = bridge.get("answer") or {}
        return Approval(
            id=task.uuid,
            group=task.via.partition(":")[2],
            title=str(bridge.get("title") or _title(task)),
            state=_state(task),
            facet=task.name,
            run=task.workflow_id,
            workflow=self._workflow(task.workflow_id),
            step=paths.shown(task.step_id, WorkflowId(task.workflow_id)),
            step_id=task.step_id,
            plain=is_plain(self.program(task), task.name),
            created=task.created,
            expires=self._moment(task.deadline),
            escalates=self._moment(task.lease_until),
            escalate_to=str(bridge.get("escalate_to") or ""),
            asked=list(bridge.get("asked") or []),
            answered_by=str(answered.get("by") or ""),
            answered_at=int(answered.get("at") or 0),
            feedback=str(answered.get("feedback") or ""),
            given={name: cut(value) for name, value in task.params.items()},
        )

    def _moment(self, store_time: int) -> int:
        return store_time + self._ahead if store_time else 0

    def _workflow(self, run_id: str) -> str:
        if run_id not in self._workflows:
            run = self.store.get_run(WorkflowId(run_id))
            self._workflows[run_id] = run.workflow_name if run is not None else ""
        return self._workflows[run_id]


def _title(task: TaskDefinition) -> str:
    return task.name.rpartition(".")[2]


def _state(task: TaskDefinition) -> str:
    if task.state == TaskState.PENDING:
        return {TaskHold.ELSEWHERE: "open", TaskHold.TIMEOUT: "expired"}.get(task.hold, "waiting")
    rejected = bool(((task.bridge or {}).get("answer") or {}).get("rejected"))
    if task.state == TaskState.COMPLETED:
        return "rejected" if rejected else "answered"
    if task.state == TaskState.FAILED:
        kinds = {TIMEOUT_ERROR: "expired", REJECTED: "rejected"}
        return kinds.get(str((task.error or {}).get("type")), "failed")
    return "canceled"
