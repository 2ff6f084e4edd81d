"""Steps: one row per iteration of a turn, for people; no guard of the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction
from afl.turns.model import Head
from afl.turns.statuses import StepStatus
from afl.turns.store.edges import Q

_OPEN = (
    StepStatus.STARTED,
    StepStatus.LLM_READY,
    StepStatus.LLM_DONE,
    StepStatus.TOOL_DISPATCHED,
    StepStatus.SUSPENDED,
)


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The state of a step, with its usage and cost in `metadata`.

    A step may be written more than once; empty metadata and calls leave the stored ones.
    """

    step_id: str
    status: StepStatus = StepStatus.COMPLETED
    error: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    tool_call_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A row of `state.agent_steps`."""

    step_id: str
    agent_id: str
    agent_turn_id: str
    turn_epoch: int
    number: int
    status: StepStatus
    tool_call_ids: Sequence[str]
    error: str | None
    metadata: Mapping[str, Any]
    started_at: int
    ended_at: int | None

    @classmethod
    def of(cls, row: Row) -> Step:
        values = {name: row[name] for name in cls.__slots__}
        values["status"] = StepStatus(values["status"])
        values["tool_call_ids"] = decode(values["tool_call_ids"])
        values["metadata"] = decode(values["metadata"])
        return cls(**values)


def open_step(tx: Transaction, head: Head, step_id: str) -> None:
    """A step of the active turn begins; its number is the head's count of steps."""
    tx.queue(
        Q.open_step,
        project=head.project_id,
        agent=head.agent_id,
        step=step_id,
        turn=head.active_agent_turn_id,
        channel=head.active_channel_id,
        parent_step=head.parent_step_id,
        trace=head.trace_id,
        epoch=head.turn_epoch,
        number=head.steps,
    )


def step_row(end: StepEnd) -> dict[str, Any]:
    """The parameters of a step."""
    return {
        "step": end.step_id,
        "status": str(end.status),
        "error": end.error,
        "metadata": encode(dict(end.metadata), what=f"metadata of step {end.step_id}"),
        "calls": encode(list(end.tool_call_ids), what=f"tool calls of step {end.step_id}"),
        "ended": int(end.status not in _OPEN),
    }


def close_step(tx: Transaction, head: Head, end: StepEnd | None) -> None:
    """Write the state of a step of the head's turn."""
    if end is not None:
        whose = {"project": head.project_id, "agent": head.agent_id, "turn": head.active_agent_turn_id}
        tx.queue(Q.close_step, **whose, **step_row(end))


def close_open_steps(tx: Transaction, project_id: str, turn_id: str, error: str) -> None:
    """Fail the open steps of a turn whose worker is lost."""
    tx.queue(Q.close_open_steps, project=project_id, turn=turn_id, error=error)


def read_steps(tx: Transaction, project_id: str, turn_id: str) -> list[Step]:
    """The steps of a turn, in order."""
    return [Step.of(row) for row in tx.all(Q.read_steps, project=project_id, turn=turn_id)]
