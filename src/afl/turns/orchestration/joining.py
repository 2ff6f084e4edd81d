"""fork_join, its second half: what the children came to is read from the store, and told to the turn that waits.

A child's end stands in the outbox of this same database, so nothing has to be delivered for it to count. Whoever ends
a child looks, and a sweep looks again; the batch's row is locked, so one of them tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.cardbox.delivery import deliverable_text
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent, JoinIntent, ReportIntent
from afl.turns.message import Message
from afl.turns.model import TurnRef
from afl.turns.orchestration.batch import BatchTask, results, verdict
from afl.turns.orchestration.child import Q
from afl.turns.orchestration.forking import FORK_JOIN
from afl.turns.orchestration.performing import AUTHOR
from afl.turns.primitives.join import join
from afl.turns.primitives.report import report
from afl.turns.primitives.stop import stop
from afl.turns.protocol.ids import new_span
from afl.turns.statuses import CardType, EdgePhase, MessageType
from afl.turns.tools.outcome import Outcome

_SUMMARY = 4000


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
    """A turn ended: if it was one of a batch, that may be complete now. What to publish after the commit."""
    row = tx.one(Q.batch_of_turn, project=project_id, turn=turn_id)
    return () if row is None else join_batch(tx, project_id, row["batch_id"])


def ripe_batches(tx: Transaction, limit: int = 100) -> list[tuple[str, str]]:
    """(project, batch) of those that somebody should look at."""
    return [(row["project_id"], row["batch_id"]) for row in tx.all(Q.ripe_batches, limit=limit)]


def join_batch(tx: Transaction, project_id: str, batch_id: str) -> tuple[Message, ...]:
    """Take up what the children came to; tell the turn that waits when the batch is over."""
    row = tx.one(Q.lock_batch, project=project_id, batch=batch_id)
    if row is None:
        return ()
    batch = _Batch.of(row)
    rows = tx.all(Q.tasks_of_batch, project=project_id, batch=batch_id)
    tasks = [_taken_up(tx, project_id, each) for each in rows]
    end = verdict(tasks, fail_fast=batch.fail_fast, expired=batch.expired)
    if end is None:
        return ()
    signals: list[Message] = []
    late = "timeout" if batch.expired else "canceled"
    for place, task in enumerate(tasks):
        if task.open:
            signals += _stop(tx, batch, task, late)
            ended = replace(task, status=late, error=f"the batch ended {end} before it")
            tasks[place] = _written(tx, project_id, rows[place], ended)
    tx.run(Q.end_batch, project=project_id, batch=batch_id, status=end)
    return (*signals, *_tell(tx, batch, end, tasks))


def _taken_up(tx: Transaction, project_id: str, row: Row) -> BatchTask:
    """A task with the end of its turn, if that has one."""
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
    return _written(tx, project_id, row, ended)


def _written(tx: Transaction, project_id: str, row: Row, task: BatchTask) -> BatchTask:
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


def _tell(tx: Transaction, batch: _Batch, end: str, tasks: Sequence[BatchTask]) -> Sequence[Message]:
    """One result for the call, and the report that brings it."""
    error = None if end == "success" else {"code": "batch_failed", "message": f"the batch ended {end}"}
    outcome = Outcome(end, {"status": end, "results": results(tasks)}, error)
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
