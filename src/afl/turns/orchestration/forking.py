"""fork_join, its first half: agents are set to work side by side, and the turn that asked waits for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.kernel.codec import encode
from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.turns.intents import JoinIntent
from afl.turns.message import Message
from afl.turns.orchestration.child import Child, ChildSource, Q, assign, checked_child
from afl.turns.orchestration.performing import Performed, record_call
from afl.turns.orchestration.requests import DEADLINE_SECONDS, ForkJoin, checked_fork, read_request
from afl.turns.primitives.join import join
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import DepthPolicy, EdgePhase
from afl.turns.tools.outcome import failed

FORK_JOIN = "fork_join"
GRACE_MS = 60_000  # the turn waits longer than the batch may take: it is the batch that tells of its deadline


def fork(tx: Transaction, source: ChildSource, arguments: Mapping[str, Any]) -> Performed:
    """The batch with its children, or a failed outcome when one of them cannot be."""
    try:
        request = checked_fork(read_request(ForkJoin, arguments, FORK_JOIN))
        children = [checked_child(tx, source, task) for task in request.tasks]
    except InputError as error:
        record_call(tx, source, FORK_JOIN)
        return Performed(failed(str(getattr(error, "code", "refused")), str(error)))
    deadline_ms = int((request.deadline_seconds or DEADLINE_SECONDS) * 1000)
    batch = _add_batch(tx, source, request, deadline_ms)
    signals: list[Message] = []
    for index, child in enumerate(children):
        signals += _add_task(tx, source, batch, index, child)
    return Performed(None, signals, deadline_ms + GRACE_MS)


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
    """One child; one that is refused at the last moment is a task that failed."""
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
