"""Tasks: claimable pieces of work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from afl.kernel.clock import wall_ms
from afl.runtime.entities.attempts import AttemptDefinition, AttemptOutcome

FACET_INFO = "_facet"
SYSTEM_PREFIX = "afl:"
POISONED_ERROR = "Poisoned"  # of a task that too many workers were lost with


class TaskState:
    """States of a task."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    IGNORED = "ignored"
    CANCELED = "canceled"


class TaskHold:
    """Why a pending task is not to be claimed."""

    CONCURRENCY = "concurrency"  # as many as allowed with its key are under way
    PAUSED = "paused"  # its run is
    POISONED = "poisoned"  # too many workers died on it; a sweep will fail its step
    TIMEOUT = "timeout"  # its time was up; a sweep will try it again or fail its step
    TIMER = "timer"  # its step sleeps until its `deadline`
    ELSEWHERE = (
        "elsewhere"  # an agent, the fleet, a message or a person has it; on an ended task: not told yet
    )


RATE_KEY = "rate:"  # how the concurrency key of a task begins that waits for a rate, rather than for a place
_CHILD = "run:"  # how the `via` of a task begins that is a child run


def child_via(workflow_id: str) -> str:
    """Where a task is done that is a child run."""
    return _CHILD + workflow_id


def child_of(task: TaskDefinition) -> str:
    """The child run that a task is; empty for any other task."""
    return task.via.removeprefix(_CHILD) if task.via.startswith(_CHILD) else ""


@dataclass
class TaskDefinition:
    """A claimable piece of work.

    `runner_id` is the creator, `owner` the claimer; `epoch` grows with every claim, and a write under an older
    epoch has no effect. `started` is when the handler of the current claim began, `deliveries` counts claims,
    `deaths` those that ended with the owner's death, `expiries` those whose lease was not renewed, `failures` those
    after which it was tried again.

    `timeout_ms`, `retry` and the concurrency key and limit are the workflow's policies; of a rate the key begins with
    RATE_KEY, and the limit is below 0: how many may begin in a minute. `hold` says why a pending
    task is not to be claimed (a word of TaskHold), `last_owner` who had it before. `not_before`, `deadline`,
    `lease_until` and `lock_until` are times of the store's clock; 0: none.

    Work that goes on elsewhere says where by `via` ("agent:researcher", "fleet:etl.daily", "message:translator",
    "human:finance", "signal:paid", "run:order-7", which is a child run; "" for all other tasks), and `bridge` has what
    else is to be known there. After `patience_ms` of waiting for a person somebody else is asked; when, says
    `lease_until`.

    `data` has the step's parameters and, as FACET_INFO, what its facet is: its name, and the types of its params and
    returns by their names.

    `host` and `pid` are the process that worked on it last. `attempt` is the record of an attempt that failed, stored
    with what the caller makes of the task.

    `unreadable` says why the stored task could not be read in full; the fields that could not are None.
    """

    uuid: str
    name: str
    runner_id: str
    workflow_id: str
    flow_id: str
    step_id: str
    state: str = TaskState.PENDING
    created: int = 0
    updated: int = 0
    error: dict[str, Any] | None = None
    task_list_name: str = "default"
    data_type: str = ""
    data: dict[str, Any] | None = None
    priority: int = 0
    owner: str = ""
    epoch: int = 0
    lease_until: int = 0
    started: int = 0
    deliveries: int = 0
    deaths: int = 0
    result: dict[str, Any] | None = None
    timeout_ms: int = 0
    retry: dict[str, Any] | None = None
    concurrency_key: str = ""
    concurrency_limit: int = 0
    hold: str = ""
    not_before: int = 0
    deadline: int = 0
    failures: int = 0
    lock_until: int = 0
    last_owner: str = ""
    via: str = ""
    bridge: dict[str, Any] | None = None
    patience_ms: int = 0
    expiries: int = 0
    host: str = ""
    pid: int = 0
    attempt: AttemptDefinition | None = field(default=None, repr=False, compare=False)

    unreadable = ""  # without a type: it is no field, and not stored

    def __copy__(self) -> TaskDefinition:
        """In a sixth of the time that Python takes by itself: every answer makes one."""
        twin = object.__new__(TaskDefinition)
        twin.__dict__ = self.__dict__.copy()
        return twin

    @property
    def attempts(self) -> int:
        """How many attempts were made: it was delivered so often, or others (`via`) were asked so often."""
        if not self.via:
            return self.deliveries
        is_open = self.state == TaskState.PENDING
        is_asked = self.hold == TaskHold.ELSEWHERE if is_open else self.state != TaskState.CANCELED
        return max(0, self.deliveries - 1) + self.failures + is_asked

    @property
    def failed_attempts(self) -> int:
        """How many attempts failed: those after which it was tried again, and the last, if that one did."""
        last = self.state == TaskState.FAILED and (self.deliveries > 0 or self.via != "")
        return self.failures + (last and (self.error or {}).get("type") != POISONED_ERROR)

    @property
    def per_minute(self) -> int:
        """How many tasks of its rate may begin in a minute; 0 if it has none."""
        return max(0, -self.concurrency_limit)

    @property
    def rate_key(self) -> str:
        """The key of its rate; empty if it has none."""
        return self.concurrency_key.removeprefix(RATE_KEY) if self.per_minute else ""

    @property
    def params(self) -> dict[str, Any]:
        """The step's parameters."""
        return params_of(self.data or {})


def params_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a task without what it says about the facet; a parameter of that name is a parameter."""
    info = data.get(FACET_INFO)
    described = isinstance(info, dict) and info.keys() == {"name", "params", "returns"}
    return {name: value for name, value in data.items() if not described or name != FACET_INFO}


def as_stored(task: TaskDefinition) -> TaskDefinition:
    """A task of the system names its step in its data: it is no work of that step, and waits for none of it."""
    if not (task.step_id and task.name.startswith(SYSTEM_PREFIX)):
        return task
    named = {"step_id": task.step_id, "workflow_id": task.workflow_id, **(task.data or {})}
    return replace(task, step_id="", data=named)


def attempt_of(
    task: TaskDefinition, outcome: str, *, ended: int = 0, error: str = "", error_type: str = ""
) -> AttemptDefinition:
    """The attempt that a claimed task is in, or that another side (`via`) makes, as it ends."""
    elsewhere = bool(task.via) and not task.owner
    return AttemptDefinition(
        workflow_id=task.workflow_id,
        task_id=task.uuid,
        number=max(task.deliveries, 1) + (task.failures if elsewhere else 0),
        step_id=task.step_id,
        worker=task.via if elsewhere else task.owner,
        outcome=outcome,
        host=task.host,
        pid=task.pid,
        queued=task.created,
        started=task.started,
        ended=ended or task.updated,
        error_type=error_type,
        error=error,
    )


def close_attempt(task: TaskDefinition) -> None:
    """Give a task that just failed the record of the attempt that did, if one did."""
    if task.error is not None and (task.owner or task.via):
        task.attempt = attempt_of(
            task, AttemptOutcome.FAILED, error=task.error["message"], error_type=task.error["type"]
        )


def retried(task: TaskDefinition, error: Mapping[str, Any], delay_ms: int) -> TaskDefinition:
    """A copy of a task that failed, with the record of that attempt, if one was made, to be put back."""
    failed = copy(task)
    if task.owner or task.via:
        attempt = attempt_of(
            failed,
            AttemptOutcome.FAILED,
            ended=wall_ms(),
            error=error["message"],
            error_type=error["type"],
        )
        failed.attempt = replace(attempt, retry_ms=delay_ms)
    return failed


def ended_attempts(tasks: Iterable[TaskDefinition | None]) -> list[AttemptDefinition]:
    """The attempts that end with these tasks."""
    return [task.attempt for task in tasks if task is not None and task.attempt is not None]


def released(task: TaskDefinition) -> AttemptDefinition:
    """The attempt of a worker that gives its claim back."""
    return attempt_of(task, AttemptOutcome.RELEASED, ended=wall_ms())


def own_attempt(task: TaskDefinition) -> AttemptDefinition | None:
    """The attempt that the row of a task is the record of: one that goes on, or that ended with a result."""
    if task.state == TaskState.RUNNING or (
        task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE
    ):
        return replace(attempt_of(task, AttemptOutcome.RUNNING), ended=0)
    if task.state in (TaskState.COMPLETED, TaskState.IGNORED) and (task.owner or task.via):
        return attempt_of(task, task.state)
    return None
