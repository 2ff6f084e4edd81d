"""Turns in a trace: a turn is a child of its cause, its steps are children of the turn, and their calls of the steps.

The traceparent in a turn's headers is that of the turn itself; its parent's is a header of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from afl.kernel import telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.ids import time_of
from afl.kernel.log import working_on
from afl.kernel.telemetry import Ended, Span
from afl.turns.model import Head
from afl.turns.protocol import headers as names
from afl.turns.protocol.ids import begins_trace


def turn_ended(head: Head, status: str, problem: str | None) -> Ended | None:
    """The span of a turn, to be recorded once its end is committed; None without telemetry."""
    if not telemetry.is_tracing() and not telemetry.is_metering():
        return None
    now, turn = wall_ms(), head.active_agent_turn_id or ""
    parent = head.context_headers.get(names.PARENT_TRACE, "")
    return Ended(
        "afl.turn",
        head.context_headers[names.TRACE],
        "" if begins_trace(parent) else parent,
        time_of(turn) or now,
        now,
        problem or "",
        {**_about(head), "afl.steps": head.steps, "afl.status": status},
    )


def record_end(ended: Ended) -> None:
    """The end of the turn is committed."""
    telemetry.report(ended)
    telemetry.count("afl.turns.ended", status=ended.attributes["afl.status"])
    telemetry.record("afl.turn.seconds", max(0, ended.ended_ms - ended.begun_ms) / 1000)


def stepping(head: Head, step_id: str) -> AbstractContextManager[object]:
    """While a worker is at a step of a turn."""
    if telemetry.is_tracing():
        return _traced(head, step_id)
    return working_on(turn=head.active_agent_turn_id or "", agent=head.agent_id, step=step_id)


@contextmanager
def _traced(head: Head, step_id: str) -> Iterator[Span]:
    ids = {"turn": head.active_agent_turn_id or "", "agent": head.agent_id, "step": step_id}
    within = head.context_headers[names.TRACE]
    about = {**_about(head), "afl.turn.step": step_id}
    with (
        working_on(**ids, trace_id=within.split("-")[1]),
        telemetry.span("afl.turn.step", within, **about) as this,
    ):
        yield this


def _about(head: Head) -> dict[str, telemetry.Attribute]:
    return {
        "afl.turn": head.active_agent_turn_id or "",
        "afl.agent": head.agent_id,
        "afl.project": head.project_id,
    }
