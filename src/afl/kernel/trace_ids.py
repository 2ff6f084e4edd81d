"""Identities of spans that every process can work out for itself: so one run is one trace, and nothing is sent along.

The trace id is made from the id of the run, the id of a span from the ids of the run and of the part it stands for.
They are hashes, since a sampler that keeps a share of the traces expects their ids to be evenly spread.
"""

from __future__ import annotations

import re
from hashlib import blake2b

TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def traceparent_of(run_id: str, part: str = "") -> str:
    """The traceparent of a run, or of a part of it such as a task."""
    trace = blake2b(run_id.encode(), digest_size=16).hexdigest()
    own = blake2b(f"{run_id}\0{part}".encode(), digest_size=8).hexdigest()
    return f"00-{trace}-{own}-01"


def trace_id_of(run_id: str) -> str:
    """The trace of a run, as a tracing system shows it."""
    return blake2b(run_id.encode(), digest_size=16).hexdigest()


def split(traceparent: str) -> tuple[int, int] | None:
    """Trace and span as numbers; None for what is no traceparent."""
    found = TRACEPARENT.fullmatch(traceparent)
    return None if found is None else (int(found[1], 16), int(found[2], 16))
