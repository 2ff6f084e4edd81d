"""Work for those who have no store at hand: claim tasks, keep them, and report how they ended.

A remote worker holds its tasks as `http:USER:WORKER`, by a lease alone: no lock proves that it lives, so it has to send
heartbeats. What it reports is fenced by the epoch of its claim, and ends the task as a worker on the store would.
`afl ps` and `afl why` find it in the registry of servers.
The run is continued by whoever evaluates runs, which the report notifies.
"""

from __future__ import annotations

import threading
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel import telemetry
from afl.kernel.bounds import Name
from afl.kernel.errors import CorruptRow, InputError
from afl.kernel.traceback_text import TracebackText
from afl.operations.parameters import LongPoll, about
from afl.operations.work import remote_reports
from afl.operations.work.remote_claims import (
    Claimed,
    ClaimedTask,
    Heartbeat,
    LogLine,
    LostTask,
    Reported,
    Stopped,
    TaskClaim,
    held_task,
    owner_of,
    put_back,
    save_logs,
    why_lost,
)
from afl.operations.work.remote_polls import end_polls, wait_for_tasks
from afl.operations.work.remote_registry import count, register, sign_off, stay_registered
from afl.runtime.entities import SYSTEM_PREFIX, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.policies import MOST_RETRY_AFTER

MOST_TASKS = 1_000
_LONGEST_TRACEBACK = 1 << 20

Facets = Annotated[
    list[Name],
    Meta(
        min_length=1,
        max_length=MOST_TASKS,
        description="What it does: names of facets, as handlers have them.",
    ),
]
WorkerName = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$",
        description="The worker's own name, the same in all its requests: letters, digits and . _ @ -",
    ),
]
Epoch = Annotated[int, Meta(ge=0, le=2**53, description="The epoch of the claim.")]
LeaseMs = Annotated[
    int,
    Meta(ge=0, le=86_400_000, description="How long it has the task without a heartbeat; 0: AFL_LEASE_MS."),
]
Claims = Annotated[list[TaskClaim], Meta(max_length=MOST_TASKS)]
Logs = Annotated[list[LogLine], Meta(max_length=10_000, description="Lines for the log of the run.")]
TaskId = Annotated[str, about("The task's id.")]


def claim_work(
    store: PersistenceAPI,
    facets: Facets,
    *,
    worker: WorkerName,
    task_list: Annotated[str, about("The task list to claim from.")] = "default",
    limit: Annotated[int, Meta(ge=1, le=MOST_TASKS, description="How many tasks at most.")] = 1,
    wait: LongPoll = 0,
    lease_ms: LeaseMs = 0,
    capacity: Annotated[
        int, Meta(ge=0, le=100_000, description="How many it works on at a time, for `afl ps`; 0: unknown.")
    ] = 0,
    by: str = "",
    gone: threading.Event | None = None,
) -> Claimed:
    """Claim tasks: those available, or the first that arrive within the wait; none if none arrives.

    They are the worker's until their lease ends, and count as begun. Each has to be completed or failed, and kept
    by heartbeats until then.
    """
    if any(name.startswith(SYSTEM_PREFIX) for name in facets):
        raise InputError(f"names that begin with {SYSTEM_PREFIX} are the system's own; claim facets")
    owner, lease = owner_of(by, worker), lease_ms or store.lease_ms
    register(store, owner, worker, facets, task_list, capacity)

    def claim() -> list[TaskDefinition]:
        return store.claim_tasks(facets, task_list, limit=limit, owner=owner, lease_ms=lease)

    tasks = wait_for_tasks(store, owner, task_list, wait, claim, gone or threading.Event())
    if gone is not None and gone.is_set():  # nobody would get the answer
        store.return_tasks(tasks)
        return Claimed([])
    telemetry.count("afl.claims", len(tasks), list=task_list)
    readable = [task for task in tasks if not task.unreadable]
    store.start_tasks(readable)
    for task in tasks:
        if task.unreadable:
            remote_reports.fail(store, task, task.unreadable, CorruptRow.__name__)
    return Claimed([_claimed(task, lease) for task in readable])


def _claimed(task: TaskDefinition, lease_ms: int) -> ClaimedTask:
    return ClaimedTask(
        task=task.uuid,
        epoch=task.epoch,
        facet=task.name,
        inputs=task.params,
        attempt=task.deliveries,
        idempotency_key=task.step_id or task.uuid,
        run=task.workflow_id,
        step=task.step_id,
        lease_ms=lease_ms,
        timeout_ms=task.timeout_ms,
    )


def heartbeat_work(
    store: PersistenceAPI,
    tasks: Claims,
    *,
    worker: WorkerName,
    lease_ms: LeaseMs = 0,
    by: str = "",
) -> Heartbeat:
    """Keep tasks: their lease is renewed, and their log entries are stored. The worker no longer has those in `lost`.

    To be sent three times within a lease, with all tasks that are not reported yet.
    """
    owner = owner_of(by, worker)
    stay_registered(store, owner)
    ids = [each.task for each in tasks]
    kept = set(store.renew(owner, lease_ms or store.lease_ms, tasks=ids, runs=[])) if ids else set()
    held = [each for each in tasks if (each.task, each.epoch) in kept]
    for each in held:
        if each.logs and (task := store.get_task(each.task)) is not None:
            save_logs(store, task, each.logs)
    lost = [
        LostTask(each.task, each.epoch, why_lost(store, each.task, each.epoch))
        for each in tasks
        if (each.task, each.epoch) not in kept
    ]
    return Heartbeat([each.task for each in held], lost)


def complete_work(
    store: PersistenceAPI,
    task: TaskId,
    *,
    epoch: Epoch,
    worker: WorkerName,
    result: Annotated[Any, about("The return values of the facet by name; they are checked.")] = None,
    logs: Logs = [],  # noqa: B006  # never changed
    by: str = "",
) -> Reported:
    """The work is done: the step continues with the result. One that does not match the return clause fails the step.

    FencedError (409), and nothing changes, if the task is no longer the worker's. The same report again is accepted.
    """
    owner = owner_of(by, worker)
    held = held_task(store, task, epoch, owner, ended="completed")
    if held is None:
        return Reported(task, "completed")
    save_logs(store, held, logs)
    told = remote_reports.complete(store, held, result)
    count(store, owner, held.name, told.state)
    return told


def fail_work(
    store: PersistenceAPI,
    task: TaskId,
    *,
    epoch: Epoch,
    worker: WorkerName,
    message: Annotated[str, about("What went wrong.")],
    error_type: Annotated[Name, about("The kind of error, as `on` of a Retry may list it.")] = "AgentError",
    error_bases: Annotated[
        list[Name],
        Meta(max_length=100, description="More general kinds of this error, which `on` may list as well."),
    ] = [],  # noqa: B006  # never changed
    traceback: Annotated[
        str,
        Meta(max_length=_LONGEST_TRACEBACK, description="Where it was raised, as the language prints it."),
    ] = "",
    location: Annotated[str, about("The line that raised: `/app/worker.mjs:12 in fetch`.")] = "",
    retryable: Annotated[bool, about("False: do not retry it, even if the workflow would.")] = True,
    retry_after: Annotated[
        float,
        Meta(ge=0, le=MOST_RETRY_AFTER, description="Seconds; if it is retried, then not sooner than that."),
    ] = 0,
    logs: Logs = [],  # noqa: B006  # never changed
    by: str = "",
) -> Reported:
    """The work failed: it is retried if the workflow says so, otherwise its step fails.

    FencedError (409), and nothing changes, if the task is no longer the worker's. The same report again is accepted.
    """
    owner = owner_of(by, worker)
    if before := put_back(store, task, epoch, owner):
        return Reported(task, TaskState.PENDING, before.error, before.retry_ms)
    held = held_task(store, task, epoch, owner, ended="failed")
    if held is None:
        return Reported(task, "failed")
    save_logs(store, held, logs)
    raised_at = TracebackText(traceback, location)
    told = remote_reports.fail(
        store,
        held,
        message,
        error_type,
        raised_at,
        bases=error_bases,
        retryable=retryable,
        retry_after=retry_after,
    )
    count(store, owner, held.name, told.state)
    return told


def stop_work(
    store: PersistenceAPI,
    *,
    worker: WorkerName,
    tasks: Claims = [],  # noqa: B006  # never changed
    unstarted: Claims = [],  # noqa: B006  # never changed
    by: str = "",
) -> Stopped:
    """The worker ends: others get the tasks that it gives up, started or not."""
    owner = owner_of(by, worker)
    returned = _returned(store, owner, tasks, begun=True) + _returned(store, owner, unstarted, begun=False)
    sign_off(store, owner)
    end_polls(owner)
    return Stopped(returned)


def _returned(store: PersistenceAPI, owner: str, claims: list[TaskClaim], *, begun: bool) -> int:
    found = [(each, store.get_task(each.task)) for each in claims]
    held = [
        (each, task)
        for each, task in found
        if task is not None and (task.owner, task.epoch) == (owner, each.epoch)
    ]
    for each, task in held:
        save_logs(store, task, each.logs)
    return store.return_tasks([task for _, task in held], begun=begun)
