"""Execution edges: which turn requested what of which, and the responses. Written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries
from afl.turns.context import TurnContext
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import EdgePhase, Primitive

Q = queries("afl.turns.store", "sql/heads")


@dataclass(frozen=True, slots=True)
class Edge:
    """A row of `state.execution_edges`."""

    edge_id: str
    project_id: str
    channel_id: str
    primitive: str
    edge_phase: str
    source_agent_id: str
    source_agent_turn_id: str
    source_step_id: str
    target_agent_id: str
    target_agent_turn_id: str
    correlation_id: str
    enqueue_mode: str | None
    recursion_depth: int
    trace_id: str
    parent_step_id: str
    metadata: Mapping[str, Any]
    created_at: int

    @classmethod
    def of(cls, row: Row) -> Edge:
        return cls(**{name: row[name] for name in cls.__slots__} | {"metadata": decode(row["metadata"])})


def edge_row(
    context: TurnContext,
    primitive: Primitive,
    phase: EdgePhase,
    correlation_id: str,
    *,
    target_agent_id: str = "",
    target_turn_id: str = "",
    depth: int | None = None,
    mode: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The parameters of one edge; its source is the context."""
    about = dict(metadata or {}) | {"cg_ctx": context.headers()}
    return {
        "edge": new_id("edge"),
        "project": context.project_id,
        "channel": context.channel_id,
        "primitive": str(primitive),
        "phase": str(phase),
        "source": context.agent_id,
        "source_turn": context.agent_turn_id,
        "source_step": context.step_id,
        "target": target_agent_id,
        "target_turn": target_turn_id,
        "correlation": correlation_id,
        "mode": mode,
        "depth": context.recursion_depth if depth is None else depth,
        "trace": context.trace_id,
        "parent_step": context.parent_step_id,
        "metadata": encode(about, what="metadata of an edge"),
    }


def add_edge(tx: Transaction, row: Mapping[str, Any]) -> bool:
    """Record it; False when there is one already."""
    return bool(tx.run(Q.add_edge, **row))


def find_edge(
    tx: Transaction, project_id: str, correlation_id: str, primitive: Primitive, phase: EdgePhase
) -> Edge | None:
    row = tx.one(
        Q.find_edge,
        project=project_id,
        correlation=correlation_id,
        primitive=str(primitive),
        phase=str(phase),
    )
    return Edge.of(row) if row is not None else None


def edges_of_turn(tx: Transaction, project_id: str, turn_id: str) -> list[Edge]:
    """The edges from a turn."""
    return [Edge.of(row) for row in tx.all(Q.edges_of_turn, project=project_id, turn=turn_id)]
