"""What a store must do: the contract of all four stores, in prose.

`PersistenceAPI` is the union of small protocols. Rules that hold for every method of every store:

* Copies go in and copies come out; changing a returned object changes nothing stored.
* Values are plain JSON data (`afl.kernel.codec`); anything else is refused with PayloadError and nothing is written.
* `commit` and `finish` are atomic: all of it is stored, or nothing. With a fence they raise FencedError (commit) or
  answer False (finish) when the caller no longer holds what it writes to, and then nothing is stored.
* A claim is atomic: no two callers receive the same task, and at most one task of a step is running.
* Times that decide (leases, locks) are taken from the store's own clock, never from the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from afl.runtime.changes import STEP_CONTINUE, EventDefinition, IterationChanges, Outcome
from afl.runtime.entities import (
    FlowDefinition,
    LockDefinition,
    LockMetaData,
    LogDefinition,
    RunDefinition,
    RunnerDefinition,
    ServerDefinition,
    TaskDefinition,
    WorkflowDefinition,
)
from afl.runtime.step import StepDefinition
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId

__all__ = [
    "STEP_CONTINUE",
    "EventDefinition",
    "EventStore",
    "FlowStore",
    "IterationChanges",
    "LockStore",
    "LogStore",
    "Outcome",
    "PersistenceAPI",
    "RunStore",
    "ServerStore",
    "StepStore",
    "TaskStore",
]


class StepStore(Protocol):
    """Steps. Lists come oldest first; steps of one millisecond by id."""

    def get_step(self, step_id: StepId) -> StepDefinition | None:
        """The step, or None."""

    def get_steps(self, step_ids: Sequence[StepId]) -> list[StepDefinition]:
        """Those of the steps that exist, in any order, in one round trip."""

    def get_open_steps(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """The steps of a run that are neither Complete nor Error."""

    def get_steps_by_block(self, block_id: StepId | BlockId) -> list[StepDefinition]:
        """The statements' steps of a block."""

    def get_steps_by_workflow(self, workflow_id: WorkflowId) -> list[StepDefinition]:
        """All steps of a run."""

    def get_steps_by_state(self, state: str) -> list[StepDefinition]:
        """All steps in a state, of any run."""

    def get_steps_by_container(self, container_id: StepId) -> list[StepDefinition]:
        """The steps whose owner this is: its blocks and the statements in them."""

    def get_blocks_by_step(self, step_id: StepId) -> list[StepDefinition]:
        """The block steps whose owner this is."""

    def get_workflow_root(self, workflow_id: WorkflowId) -> StepDefinition | None:
        """The root step of a run: the one without root and container."""

    def step_exists(self, statement_id: StatementId | str, block_id: StepId | BlockId | None) -> bool:
        """Whether a block already has a step for a statement."""

    def save_step(self, step: StepDefinition) -> None:
        """Insert or replace a step, without any fence: for operators and agents of other languages."""


class EventStore(Protocol):
    """Events. A saved StepContinue event is a mark: whoever evaluates the run next consumes it."""

    def get_event(self, event_id: EventId) -> EventDefinition | None:
        """The event, or None."""

    def get_events_by_workflow(self, workflow_id: WorkflowId) -> list[EventDefinition]:
        """The events of a run by id (for our own: in creation order), StepContinue marks included."""

    def get_marks(self, workflow_id: WorkflowId, limit: int = 1000) -> list[EventDefinition]:
        """Unconsumed StepContinue events of a run, in any order."""

    def get_marked_runs(self, limit: int = 100) -> list[WorkflowId]:
        """Runs with unconsumed marks that nobody holds, oldest run first."""

    def save_event(self, event: EventDefinition) -> None:
        """Insert or replace an event."""


class TaskStore(Protocol):
    """The task queue."""

    def get_task(self, uuid: str) -> TaskDefinition | None:
        """The task, or None."""

    def get_task_by_step(self, step_id: StepId) -> TaskDefinition | None:
        """The newest task of a step, or None."""

    def get_pending_tasks(self, task_list: str) -> list[TaskDefinition]:
        """Pending tasks of a list, in the order in which they would be claimed."""

    def get_tasks_by_workflow(self, workflow_id: WorkflowId) -> list[TaskDefinition]:
        """All tasks of a run, in creation order."""

    def get_all_tasks(self, limit: int = 100) -> list[TaskDefinition]:
        """The newest tasks, newest first."""

    def save_task(self, task: TaskDefinition) -> None:
        """Insert or replace a task, without any fence."""

    def claim_task(
        self, task_names: list[str], task_list: str = "default", *, owner: str = "", lease_ms: int = 0
    ) -> TaskDefinition | None:
        """Atomically take the first pending task (highest priority, then oldest) that one of the names serves.

        Tasks of one step are served one at a time, oldest first. A name without a dot serves every namespace's facet
        of that name; a dotted one only itself. The task becomes running under `owner` (this process when empty) with
        epoch + 1, and so its event Dispatched. Without a lease (0) only proof of the owner's death or an operator sets
        it free.
        """

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        workflow_id: str | None = None,
    ) -> list[TaskDefinition]:
        """As `claim_task`, up to `limit` tasks in one round trip, in claim order; of one run only, if named."""

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        """The handlers of these claimed tasks begin: their events become Processing."""

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Store the outcomes, each under its own fence: task and step and event and mark, or nothing.

        False for one whose task is no longer the caller's or whose step has left EventTransmit.
        """

    def renew(self, owner: str, lease_ms: int) -> None:
        """Extend the lease of everything the owner holds: tasks and runs."""

    def release_tasks(self, owner: str, *, died: bool) -> int:
        """Return an owner's running tasks to pending with epoch + 1; `died` counts as a death. How many."""

    def reclaim(self) -> int:
        """Release the tasks of every owner whose lease ended or whose death is proven. How many tasks."""


class RunStore(Protocol):
    """Runs and their runner records."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        """The run, or None."""

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        """The newest runs, newest first."""

    def take_run(self, workflow_id: WorkflowId, *, lease_ms: int) -> RunDefinition | None:
        """Hold a run as this process, with epoch + 1, its inputs left out; None if there is no such run.

        HeldError when a holder whose lease runs and whose death is not proven has it.
        """

    def release_run(self, run: RunDefinition) -> None:
        """End the hold that this run (owner, epoch) describes; nothing if it ended already."""

    def get_runner(self, uuid: str) -> RunnerDefinition | None:
        """The runner record, or None."""

    def save_runner(self, runner: RunnerDefinition) -> None:
        """Insert or replace a runner record."""

    def update_runner_state(self, uuid: str, state: str) -> bool:
        """Set a runner record's state; False if there is none."""

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        """Runner records in a state, newest first."""

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        """Runner records of a run, newest first."""

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        """The newest runner records, newest start first."""


class FlowStore(Protocol):
    """Flows with their sources, workflows, and compiled programs by hash."""

    def save_program(self, program_hash: str, compiled: str) -> None:
        """Store a compiled program once; a known hash is nothing to do."""

    def get_program(self, program_hash: str) -> str | None:
        """The compiled program's JSON, or None."""

    def get_flow(self, uuid: str) -> FlowDefinition | None:
        """The flow, or None."""

    def get_flow_by_path(self, path: str) -> FlowDefinition | None:
        """The newest flow of that path, or None."""

    def get_flow_by_name(self, name: str) -> FlowDefinition | None:
        """The newest flow of that name, or None."""

    def get_all_flows(self) -> list[FlowDefinition]:
        """Every flow, oldest first."""

    def save_flow(self, flow: FlowDefinition) -> None:
        """Insert or replace a flow."""

    def delete_flow(self, uuid: str) -> bool:
        """Remove a flow; False if there is none."""

    def get_workflow(self, uuid: str) -> WorkflowDefinition | None:
        """The workflow, or None."""

    def get_workflow_by_name(self, name: str) -> WorkflowDefinition | None:
        """The newest workflow of that name, or None."""

    def get_workflows_by_flow(self, flow_id: str) -> list[WorkflowDefinition]:
        """The workflows of a flow."""

    def save_workflow(self, workflow: WorkflowDefinition) -> None:
        """Insert or replace a workflow."""


class ServerStore(Protocol):
    """Servers."""

    def get_server(self, uuid: str) -> ServerDefinition | None:
        """The server, or None."""

    def save_server(self, server: ServerDefinition) -> None:
        """Insert or replace a server."""

    def update_server_ping(self, uuid: str, ping_time: int) -> bool:
        """Set a server's ping time; False if there is none."""

    def get_all_servers(self) -> list[ServerDefinition]:
        """Every server, oldest start first."""

    def get_servers_by_state(self, state: str) -> list[ServerDefinition]:
        """The servers in a state, oldest start first."""


class LockStore(Protocol):
    """Named locks. A call that names no owner acts as an operator: it may release or extend any lock."""

    def acquire_lock(
        self, key: str, duration_ms: int, meta: LockMetaData | None = None, *, owner: str = ""
    ) -> bool:
        """Take a free or expired lock; an owner that has it already extends it. False if another has it."""

    def release_lock(self, key: str, *, owner: str = "") -> bool:
        """Give a lock back; False if it was not held (by that owner)."""

    def check_lock(self, key: str) -> LockDefinition | None:
        """The lock if somebody holds it now."""

    def extend_lock(self, key: str, duration_ms: int, *, owner: str = "") -> bool:
        """Set the expiry to now + duration; False if the lock is not held (by that owner)."""


class LogStore(Protocol):
    """Run logs."""

    def save_log(self, log: LogDefinition) -> None:
        """Append a log entry."""

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        """The entries of a runner (or run), by order, then by time."""


@runtime_checkable
class PersistenceAPI(
    StepStore, EventStore, TaskStore, RunStore, FlowStore, ServerStore, LockStore, LogStore, Protocol
):
    """Everything the runtime asks of a store."""

    lease_ms: int  # how long a hold lasts without being renewed

    def commit(self, changes: IterationChanges) -> None:
        """Store the changes atomically; FencedError, and nothing stored, if `changes.run` lost its epoch.

        A committed task wakes whoever listens for its task list; a committed run, whoever waits for it.
        """

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""

    def close(self) -> None:
        """Release connections; held runs and tasks go to others when their lease ends."""
