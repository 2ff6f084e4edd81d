"""fork_join: a turn enqueues several turns of other agents, suspends, and gets their results as one tool result.

The end of a child is in the outbox of the same database, so joining needs no message. The worker that ends a child
joins, and the watchdog joins again; the row of the batch is locked, so that one of them reports.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction
from afl.kernel.errors import InputError
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.cardbox.deliverable import deliverable_text
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent, JoinIntent, ReportIntent
from afl.turns.message import Message
from afl.turns.model import Head, TurnRef
from afl.turns.orchestration.builtins import AUTHOR, BuiltinResult, record_call
from afl.turns.orchestration.child import Child, ChildSource, Q, assign, checked_child
from afl.turns.orchestration.requests import DEADLINE_SECONDS, ForkJoin, checked_fork, read_request
from afl.turns.primitives.join import join
from afl.turns.primitives.report import report
from afl.turns.primitives.stop import stop
from afl.turns.protocol.ids import new_id, new_span
from afl.turns.statuses import CardType, DepthPolicy, EdgePhase, MessageType
from afl.turns.tools.outcome import Outcome, failed

FORK_JOIN = "fork_join"
GRACE_MS = 60_000  # the turn waits longer than the batch, so that the batch reports its own deadline
OPEN = frozenset({"pending", "dispatched"})
_SUMMARY = 4000
_LATE = "it had not ended when the deadline of fork_join passed"
_CANCELED = "it was stopped since another task failed (fail_fast)"


def fork(tx: Transaction, source: ChildSource, arguments: Mapping[str, Any]) -> BuiltinResult:
    """Enqueue the children of a batch; a failed outcome when one of them is refused."""
    try:
        request = checked_fork(read_request(ForkJoin, arguments, FORK_JOIN), _waiting(tx, source.head))
        children = [checked_child(tx, source, task) for task in request.tasks]
    except InputError as error:
        record_call(tx, source, FORK_JOIN)
        return BuiltinResult(failed(str(getattr(error, "code", "refused")), str(error)))
    deadline_ms = int((request.deadline_seconds or DEADLINE_SECONDS) * 1000)
    batch = _add_batch(tx, source, request, deadline_ms)
    signals: list[Message] = []
    for index, child in enumerate(children):
        signals += _add_task(tx, source, batch, index, child)
    return BuiltinResult(None, signals, deadline_ms + GRACE_MS)


def _waiting(tx: Transaction, head: Head) -> list[str]:
    """The agent that forks, and those that wait for its turn, and for theirs."""
    rows = tx.all(Q.waiting_ancestors, project=head.project_id, turn=head.active_agent_turn_id)
    return [head.agent_id, *(row["agent_id"] for row in rows)]


def _add_batch(tx: Transaction, source: ChildSource, request: ForkJoin, deadline_ms: int) -> str:
    batch, head = new_id("batch"), source.head
    about = {
        "fail_fast": request.fail_fast,
        "step_id": source.step_id,
        "recursion_depth": head.active_recursion_depth,
        "traceparent": source.context.traceparent,
    }
    tx.run(
        Q.add_batch,
        project=head.project_id,
        batch=batch,
        agent=head.agent_id,
        turn=head.active_agent_turn_id,
        call=source.tool_call_id,
        epoch=head.turn_epoch,
        channel=head.active_channel_id,
        tasks=len(request.tasks),
        deadline_ms=deadline_ms,
        metadata=encode(about),
    )
    join(tx, source.context, JoinIntent(batch, EdgePhase.REQUEST, {"task_count": len(request.tasks)}))
    return batch


def _add_task(
    tx: Transaction, source: ChildSource, batch: str, index: int, child: Child
) -> Sequence[Message]:
    """One child; a child that enqueue refuses is a failed task."""
    made, result = assign(
        tx, source, child, correlation_id=f"{source.tool_call_id}.{index}", policy=DepthPolicy.DESCEND
    )
    tx.run(
        Q.add_task,
        project=source.head.project_id,
        task=new_id("task"),
        batch=batch,
        index=index,
        agent=made.agent_id,
        status="dispatched" if result.accepted else "failed",
        turn=result.payload.get("agent_turn_id"),
        epoch=result.payload.get("turn_epoch"),
        profile_box=made.profile_box_id,
        context_box=made.context_box_id,
        output_box=made.output_box_id,
        error=result.error,
        metadata="{}",
    )
    return result.signals


@dataclass(frozen=True, slots=True)
class BatchTask:
    """A row of `state.pmo_batch_tasks`."""

    index: int
    agent_id: str
    status: str
    agent_turn_id: str | None = None
    output_box_id: str | None = None
    summary: str | None = None
    error: str | None = None

    @property
    def open(self) -> bool:
        return self.status in OPEN


def verdict(tasks: Sequence[BatchTask], *, fail_fast: bool, expired: bool) -> str | None:
    """The status with which the batch ends; None while it runs."""
    failures = [task for task in tasks if not task.open and task.status != "success"]
    if fail_fast and failures:
        return "failed"
    if any(task.open for task in tasks):
        return _overall(tasks, "timeout") if expired else None
    return _overall(tasks, "")


def _overall(tasks: Sequence[BatchTask], late: str) -> str:
    """All success is success, some is partial; otherwise the worst status."""
    statuses = [late if task.open else task.status for task in tasks]
    if all(status == "success" for status in statuses):
        return "success"
    if "success" in statuses:
        return "partial"
    if any(status in ("failed", "canceled") for status in statuses):
        return "failed"
    return "timeout" if "timeout" in statuses else "partial"


def results(tasks: Sequence[BatchTask]) -> list[dict[str, Any]]:
    """The results of the tasks, in their order in the request."""
    told = []
    for task in sorted(tasks, key=lambda each: each.index):
        one: dict[str, Any] = {"task_index": task.index, "status": task.status, "agent_id": task.agent_id}
        for key, value in (
            ("summary", task.summary),
            ("output_box_id", task.output_box_id),
            ("error", task.error),
        ):
            if value is not None:
                one[key] = value
        told.append(one)
    return told


@dataclass(frozen=True, slots=True)
class _Batch:
    """A batch whose row is locked."""

    project_id: str
    batch_id: str
    turn: TurnRef
    tool_call_id: str
    expired: bool
    fail_fast: bool
    step_id: str
    context: TurnContext

    @classmethod
    def of(cls, row: Row) -> _Batch:
        about = decode(row["metadata"])
        context = TurnContext(
            row["project_id"],
            row["parent_channel_id"],
            AUTHOR,
            row["parent_agent_turn_id"],
            row["parent_turn_epoch"],
            about["recursion_depth"],
            about["step_id"],
            row["parent_tool_call_id"],
            traceparent=new_span(about["traceparent"]),
        )
        turn = TurnRef(row["project_id"], row["parent_agent_id"], row["parent_agent_turn_id"])
        return cls(
            row["project_id"],
            row["batch_id"],
            turn,
            row["parent_tool_call_id"],
            bool(row["expired"]),
            about["fail_fast"],
            about["step_id"],
            context,
        )


def join_child(tx: Transaction, project_id: str, turn_id: str) -> tuple[Message, ...]:
    """A turn ended: if it belongs to a batch, join that. The messages to publish after the commit."""
    row = tx.one(Q.batch_of_turn, project=project_id, turn=turn_id)
    return () if row is None else join_batch(tx, project_id, row["batch_id"])


def ripe_batches(tx: Transaction, limit: int = 100) -> list[tuple[str, str]]:
    """(project, batch) of batches that can be joined or are past their deadline."""
    return [(row["project_id"], row["batch_id"]) for row in tx.all(Q.ripe_batches, limit=limit)]


def join_batch(tx: Transaction, project_id: str, batch_id: str) -> tuple[Message, ...]:
    """Read the ends of the children; when the batch is over, report to the turn that waits."""
    row = tx.one(Q.lock_batch, project=project_id, batch=batch_id)
    if row is None:
        return ()
    batch = _Batch.of(row)
    rows = tx.all(Q.tasks_of_batch, project=project_id, batch=batch_id)
    tasks = [_read_task(tx, project_id, each) for each in rows]
    end = verdict(tasks, fail_fast=batch.fail_fast, expired=batch.expired)
    if end is None:
        return ()
    signals: list[Message] = []
    late, why = ("timeout", _LATE) if batch.expired else ("canceled", _CANCELED)
    for place, task in enumerate(tasks):
        if task.open:
            signals += _stop(tx, batch, task, late)
            ended = replace(task, status=late, error=why)
            tasks[place] = _end_task(tx, project_id, rows[place], ended)
    tx.run(Q.end_batch, project=project_id, batch=batch_id, status=end)
    return (*signals, *_report(tx, batch, end, tasks))


def _read_task(tx: Transaction, project_id: str, row: Row) -> BatchTask:
    """A task with the end of its turn, if it has ended."""
    known = decode(row["metadata"])
    task = BatchTask(
        row["task_index"],
        row["agent_id"],
        row["status"],
        row["current_agent_turn_id"],
        row["output_box_id"],
        known.get("summary"),
        row["error_detail"],
    )
    if not task.open or row["ended"] is None:
        return task
    summary = deliverable_text(decode(row["deliverable"])) if row["deliverable"] is not None else ""
    told: Mapping[str, Any] = decode(row["told"])
    ended = replace(task, status=row["ended"], summary=summary[:_SUMMARY], error=told.get("error"))
    return _end_task(tx, project_id, row, ended)


def _end_task(tx: Transaction, project_id: str, row: Row, task: BatchTask) -> BatchTask:
    tx.run(
        Q.end_task,
        project=project_id,
        batch=row["batch_id"],
        task=row["batch_task_id"],
        status=task.status,
        output_box=task.output_box_id,
        error=task.error,
        metadata=encode({} if task.summary is None else {"summary": task.summary}),
    )
    return task


def _stop(tx: Transaction, batch: _Batch, task: BatchTask, why: str) -> Sequence[Message]:
    if task.agent_turn_id is None:
        return ()
    turn = TurnRef(batch.project_id, task.agent_id, task.agent_turn_id)
    reason = f"fork_join {batch.batch_id} ended: {why}"
    return stop(tx, batch.context, AddressIntent(turn, MessageType.STOP, {"reason": reason})).signals


def _report(tx: Transaction, batch: _Batch, end: str, tasks: Sequence[BatchTask]) -> Sequence[Message]:
    """The result card of the call, and its report."""
    outcome = Outcome(end, {"status": end, "results": results(tasks)}, _error(end, tasks))
    made = NewCard(
        CardType.TOOL_RESULT,
        outcome.content(),
        AUTHOR,
        agent_turn_id=batch.turn.agent_turn_id,
        step_id=batch.step_id,
        tool_call_id=batch.tool_call_id,
        function_name=FORK_JOIN,
    )
    card = save_result(tx, batch.project_id, made)
    join(tx, batch.context, JoinIntent(batch.batch_id, EdgePhase.RESPONSE, {"status": end}))
    payload = {
        "status": card.content["status"],
        "after_execution": "suspend",
        "tool_result_card_id": card.card_id,
    }
    return report(tx, batch.context, ReportIntent(batch.turn, payload, batch.tool_call_id)).signals


def _error(end: str, tasks: Sequence[BatchTask]) -> dict[str, str] | None:
    if end == "success":
        return None
    failures = sum(task.status != "success" for task in tasks)
    why = f"{failures} of {len(tasks)} tasks did not succeed; see the results of each"
    return {"code": "batch_failed", "message": why}
