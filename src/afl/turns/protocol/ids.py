"""Identifiers of turns: a prefix for the kind, and the time of creation."""

from __future__ import annotations

from random import getrandbits
from typing import Literal

from afl.kernel.ids import sortable_id

Kind = Literal["turn", "step", "card", "box", "call", "inbox", "edge", "out", "batch", "task", "agent"]


def new_id(kind: Kind) -> str:
    """`turn_01k...`: ids of one process sort in the order in which they were made."""
    return f"{kind}_{sortable_id()}"


def new_trace() -> str:
    """A W3C traceparent that begins a trace. Its span id, half of the trace id, marks that there is no such span."""
    trace = f"{getrandbits(128):032x}"
    return f"00-{trace}-{trace[:16]}-01"


def begins_trace(traceparent: str) -> bool:
    """Whether it was made by `new_trace`: what belongs to it belongs to nothing."""
    return traceparent[3:19] == traceparent[36:52]


def new_span(traceparent: str) -> str:
    """Another span of the same trace."""
    version, trace, _, flags = traceparent.split("-")
    return f"{version}-{trace}-{getrandbits(64):016x}-{flags}"  # no secret: many are made, and this is fast
