"""A run at a glance: what it is, what went in and came out, what it cost, and what went wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from afl.operations.program.program_shelf import shelf
from afl.operations.run import run_store
from afl.operations.run.excerpts import Excerpt, excerpt
from afl.operations.run.run_list import RunLine, run_line
from afl.operations.run.spending import get_budget, get_usage
from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import Budget, UsageTotal, total


@dataclass(frozen=True)
class RunSummary:
    """A run without its steps. `excerpt` is the source around the line that failed, where it is known.

    `program` is what it executes, and `flow` the stored flow that it was started from, if any: `show_flow` takes both.
    A flow may have been published anew since.
    """

    line: RunLine
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    failure: dict[str, Any] | None
    excerpt: Excerpt | None
    usage: UsageTotal | None
    budget: Budget | None
    source: str
    is_over: bool
    program: str = ""
    flow: str = ""


def run_summary(store: PersistenceAPI, run: str) -> RunSummary:
    """A run at a glance."""
    found = run_store.find(store, run)
    program = shelf(store).load(found.program_hash)
    failure = (
        StepFailure.from_dict(found.error) if found.error and found.state == RunnerState.FAILED else None
    )
    records = get_usage(store, found.workflow_id)
    return RunSummary(
        line=run_line(found),
        inputs=found.inputs,
        outputs=found.outputs,
        failure=failure.to_dict() if failure is not None else None,
        excerpt=excerpt(program, failure.line, failure.column) if failure is not None else None,
        usage=total(records) if records else None,
        budget=get_budget(store, found.workflow_id),
        source=program.source,
        is_over=found.is_over,
        program=found.program_hash,
        flow=found.flow_id,
    )
