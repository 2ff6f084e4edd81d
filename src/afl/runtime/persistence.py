"""What a store must do: the contract of all four stores, in prose.

`PersistenceAPI` is the union of small protocols. Rules that hold for every method of every store:

* Copies go in and copies come out; changing a returned object changes nothing stored.
* Values are plain JSON data (`afl.kernel.codec`); anything else is refused with PayloadError and nothing is written.
* `commit` and `finish` are atomic: all of it is stored, or nothing. With a fence they raise FencedError (commit) or
  answer False (finish) when the caller no longer holds what it writes to, and then nothing is stored.
* A claim is atomic: no two callers receive the same task, and at most one task of a step is running.
* Times that decide (leases, locks, deadlines, delays) are the store's own, never the caller's.
* What is committed rings: `tasks:<list>` when a task may be claimed, `runs` when a run needs an evaluator, `run:<id>`
  when a run is over or paused, `logs:<id>` when agents write to its log, `elsewhere` when there is work for another
  side, `cancel` when work is taken away from those who do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from afl.runtime.census import TaskCount
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
from afl.runtime.step import StepDefinition, StepLine
from afl.runtime.types import BlockId, EventId, StatementId, StepId, WorkflowId

if TYPE_CHECKING:
    from afl.kernel.doorbell import Ear
    from afl.kernel.errors import AgentFlowError
    from afl.kernel.presence import Life

__all__ = [
    "STEP_CONTINUE",
    "CensusStore",
    "EventDefinition",
    "EventStore",
    "FlowStore",
    "IterationChanges",
    "LockStore",
    "LogStore",
    "Outcome",
    "PersistenceAPI",
    "PulseStore",
    "RunStore",
    "ServerStore",
    "StepStore",
    "TaskStore",
]


UNTOLD_MS = 86_400_000  # for so long an ended run is kept whose work elsewhere has not been called off yet


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

    def get_lost_steps(self, limit: int = 100) -> list[StepDefinition]:
        """Steps at EventTransmit of running runs without a holder that nobody will continue.

        They have no pending or running task, and no StepContinue mark.
        """

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

    def get_marks_of(self, workflow_ids: Sequence[WorkflowId], limit: int = 10_000) -> list[EventDefinition]:
        """Unconsumed StepContinue events of several runs, in any order."""

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

    def find_tasks(
        self,
        *,
        state: str = "",
        name: str = "",
        task_list: str = "",
        hold: str = "",
        owner: str = "",
        key: str = "",
        prefix: str = "",
        via: str = "",
        after: str = "",
        limit: int = 100,
    ) -> list[TaskDefinition]:
        """The oldest tasks that have all that is asked for (empty: whatever it be), in creation order.

        `name` may be a short one, `key` is a concurrency key, `prefix` the beginning of an id, `via` a kind ("human")
        or all of it ("human:finance"), `after` the id of a task: only younger ones, for paging. The hold "elsewhere"
        without a state means pending ones.
        """

    def save_task(self, task: TaskDefinition) -> None:
        """Insert or replace a task, without any fence."""

    def claim_task(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
    ) -> TaskDefinition | None:
        """Atomically take the first pending task (highest priority, then oldest) that one of the names serves.

        Tasks of one step are served one at a time, oldest first; one with a `hold`, before its time, or whose lock
        (`runner:task:<uuid>`) somebody else has, is passed over. A name without a dot serves every namespace's facet
        of that name; a dotted one only itself. The task becomes running under `owner` (this process when empty) with
        epoch + 1, and so its event Dispatched; its lock is set for `lock_ms`.
        Without a lease (0) only proof of the owner's death or an operator sets it free.
        """

    def claim_tasks(
        self,
        task_names: list[str],
        task_list: str = "default",
        *,
        limit: int,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        workflow_id: str | None = None,
        any_event: bool = False,
    ) -> list[TaskDefinition]:
        """As `claim_task`, up to `limit` tasks in one round trip, in claim order.

        Of one run only, if named, and then on whatever list they are. `any_event` adds every task of a step, whatever
        its name, behind the named ones, but never those named `afl:...`.
        """

    def next_due(self, task_list: str | None = None, workflow_id: str | None = None) -> int | None:
        """In how many milliseconds the first delayed task (of a list, of a run) may be claimed; None without one."""

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        """The handlers of these claimed tasks begin: their events become Processing, and their time begins to run."""

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        """Store the outcomes, each under its own fence: task and step and event and mark, or nothing.

        False for one whose task is no longer the caller's or whose step has left EventTransmit. The slot of a task
        with a concurrency key goes to the next that waits for it.
        """

    def close_tasks(self, tasks: Sequence[TaskDefinition]) -> list[bool]:
        """Give held tasks without a step their last state; False for one that is no longer the caller's."""

    def requeue(self, task: TaskDefinition, delay_ms: int, error: dict[str, Any]) -> bool:
        """Put a task back for another attempt: pending, failures + 1, not claimed before the delay has passed.

        Under its claim; a task without owner must be pending. False if it is not what the caller thinks.
        """

    def return_tasks(self, tasks: Sequence[TaskDefinition], *, begun: bool = False) -> int:
        """Give claims back: pending again, with epoch + 1. How many were still held.

        Unless the work had `begun`, it is as if they had never been delivered.
        """

    def renew(
        self,
        owner: str,
        lease_ms: int,
        lock_ms: int = 0,
        *,
        tasks: Sequence[str] | None = None,
        runs: Sequence[str] | None = None,
    ) -> list[tuple[str, int]]:
        """Extend the lease (and locks) of what the owner holds, all of it or these; its tasks as (uuid, epoch).

        A lease that is longer already stays as it is.
        """

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        """Extend one claim; False if it is no longer held."""

    def release_tasks(self, owner: str, *, died: bool) -> int:
        """Return an owner's running tasks to pending with epoch + 1; `died` counts as a death. How many."""

    def reclaim(self) -> int:
        """Take away what nobody works on any more. How many tasks and runs.

        Tasks and runs of owners whose lease ended or whose death is proven return to pending (epoch + 1). A death
        counts against tasks that had begun (`start_tasks`); the first one against all in those hands, unless
        `max_deliveries` is 1. At `max_deliveries` deaths a task gets the hold "poisoned". Tasks past their deadline
        return to pending with the hold "timeout". Locks of the dead end. Whoever sweeps then judges these holds.
        """

    # Work that goes on elsewhere: a task with `via` is stored with the hold "elsewhere" (or waits for a slot of its
    # key first), and nobody claims it. Its time (`timeout_ms`, `patience_ms`) begins at once. It keeps that hold while
    # its run is paused, and counts as active among the tasks of its key. When somebody but the other side ends it
    # (cancel, a timeout, an operator), the hold stays as the mark that the other side has not been told, but for
    # people, who need not be told. An Outcome `elsewhere` is the other side's own word: it has an effect only if the
    # task is still pending there, under the same epoch and `via`.

    def hand_over(
        self, task: TaskDefinition, via: str, bridge: dict[str, Any] | None = None, *, patience_ms: int = 0
    ) -> bool:
        """Let a claimed task be done elsewhere: pending there, with epoch + 1. False if it is not held any more."""

    def get_unanswered(self, limit: int = 100) -> list[TaskDefinition]:
        """Tasks elsewhere whose patience is over: somebody else is to be asked. Oldest first."""

    def ask_next(self, task: TaskDefinition, via: str) -> bool:
        """Move a task to `via`, and store its `bridge` and `patience_ms` as they are now; the epoch stays.

        False if it is no longer where the caller thinks.
        """

    def ended_elsewhere(self, kind: str, limit: int = 100) -> list[TaskDefinition]:
        """Tasks that ended without the other side of this kind ("agent") knowing it yet, oldest first."""

    def told(self, task: TaskDefinition) -> bool:
        """The other side knows that the task has ended; False if it knew already."""


class RunStore(Protocol):
    """Runs and their runner records."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        """The run, or None."""

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        """The newest runs, newest first."""

    def find_runs(
        self,
        *,
        prefix: str = "",
        state: str = "",
        workflow: str = "",
        before: str = "",
        text: str = "",
        since: int = 0,
        until: int = 0,
        limit: int = 100,
    ) -> list[RunDefinition]:
        """The newest runs that have all that is asked for, newest first, inputs left out.

        `before` is the id of a run: only older ones, for paging. `text` stands, in whatever case, in its id, its
        workflow's name, its error or its reason; it was created at `since` or later, before `until` (wall clock, ms).
        """

    def insert_run(self, run: RunDefinition) -> bool:
        """Store a new run that nobody holds, for any evaluator to begin; False if there is one of that id."""

    def get_due_runs(self, limit: int = 100) -> list[WorkflowId]:
        """Runs that need an evaluator and have none: with unconsumed marks, or between fixed points. Oldest first."""

    def pause_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        """Stop a run where it stands: no evaluator, none of its tasks claimed. False if it is over or paused already.

        Tasks that run go on, and their results wait as marks.
        """

    def unpause_run(self, workflow_id: WorkflowId) -> bool:
        """Let a paused run go on (one that had not begun is created again); False if it is not paused."""

    def cancel_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        """End a run, and its tasks as canceled, whoever holds them. False if it is over already."""

    def delete_runs(self, ended_before: int, limit: int) -> int:
        """Remove up to so many runs that ended before a time (wall clock, ms), with all that belongs to them."""

    def take_run(self, workflow_id: WorkflowId, *, lease_ms: int) -> RunDefinition | None:
        """Hold a run as this process, with epoch + 1, its inputs left out; None if there is no such run.

        HeldError when a holder whose lease runs and whose death is not proven has it.
        """

    def take_runs(self, workflow_ids: Sequence[WorkflowId], *, lease_ms: int) -> list[RunDefinition]:
        """`take_run` for several in one round trip: those that could be taken. Inputs come with runs not begun yet."""

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

    def save_logs(self, logs: Sequence[LogDefinition]) -> None:
        """Append log entries in one round trip."""

    def get_logs_by_runner(self, runner_id: str) -> list[LogDefinition]:
        """The entries of a runner (or run), by order, then by time."""

    def get_logs_after(
        self, runner_id: str, position: int, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        """Entries of a runner (or run) stored behind a position, with their positions, for those who follow."""

    def get_logs_before(
        self, runner_id: str, position: int = 0, limit: int = 1000
    ) -> list[tuple[int, LogDefinition]]:
        """Entries stored before a position, newest first; before 0 are all of them."""


class PulseStore(Protocol):
    """Cheap looks for those who watch: a value that differs when what it is about has changed."""

    def run_pulse(self, workflow_id: WorkflowId) -> tuple[Any, ...] | None:
        """Of a run, its steps, tasks and log; None if there is no such run."""

    def runs_pulse(self) -> tuple[Any, ...]:
        """Of the newest runs, and of those that are open."""

    def tasks_pulse(self) -> tuple[Any, ...]:
        """Of the queue: what is in it, and what is being worked on."""

    def log_end(self, runner_id: str) -> int:
        """The position of the newest log entry of a runner (or run); 0 without one."""

    def count_open_runs(self) -> int:
        """How many runs are created or running."""

    def get_step_lines(self, workflow_id: WorkflowId) -> list[StepLine]:
        """All steps of a run without their values: thousands of them cost little. Oldest first."""

    def get_running_steps(self, workflow_id: WorkflowId) -> set[StepId]:
        """The steps of a run whose tasks somebody works on."""

    def get_tasks_by_step(self, step_id: StepId) -> list[TaskDefinition]:
        """All tasks of a step, in creation order: one more for each time an operator had it retried."""


class CensusStore(Protocol):
    """Figures of the whole store."""

    def count_tasks(self) -> list[TaskCount]:
        """Open tasks by list, name, state, hold and `via`."""

    def count_runs(self) -> dict[str, int]:
        """Runs by state; a state that none has may be missing."""


@runtime_checkable
class PersistenceAPI(
    StepStore,
    EventStore,
    TaskStore,
    RunStore,
    FlowStore,
    ServerStore,
    LockStore,
    LogStore,
    PulseStore,
    CensusStore,
    Protocol,
):
    """Everything the runtime asks of a store."""

    lease_ms: int  # how long a hold lasts without being renewed
    max_deliveries: int  # how many owners may die on a task
    doorbell: str  # how other processes hear of a commit: the setting AFL_DOORBELL
    capabilities: ClassVar[frozenset[str]]  # of concurrency, schedules, budgets, retention

    def commit(self, changes: IterationChanges) -> None:
        """Store the changes atomically; FencedError, and nothing stored, if `changes.run` lost its epoch.

        A committed task wakes whoever listens for its task list; a committed run, whoever waits for it.
        """

    def commit_all(self, batch: Sequence[IterationChanges]) -> list[AgentFlowError | None]:
        """`commit` for several runs in as few round trips as can be.

        Each is stored or not by itself: for each what `commit` would have raised (FencedError, PayloadError,
        StoreConflict), or None.
        """

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""

    def listen(self, topics: Iterable[str]) -> Ear:
        """An ear for what is committed from now on, here and in other processes."""

    def describe(self, owner: str) -> str:
        """An owner in words: its process and host, where they are known."""

    def life(self, owner: str) -> Life:
        """What can be said about an owner's process."""

    def now(self) -> int:
        """The store's clock, by which leases and deadlines end; milliseconds."""

    def close(self) -> None:
        """Release connections; held runs and tasks go to others when their lease ends."""
