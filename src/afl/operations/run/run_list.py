"""Runs, one line each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated

from afl.kernel.clock import wall_ms
from afl.operations.parameters import Limit, RunStateName, about
from afl.operations.run import run_store
from afl.operations.run.leading_inputs import leading_inputs
from afl.operations.run.run_filters import (
    Longer,
    Match,
    MaxCost,
    MinCost,
    Shorter,
    Since,
    TagList,
    Text,
    Until,
    Within,
    WorkflowName,
    matching,
    run_filter,
)
from afl.operations.run.run_status import RunStatus
from afl.runtime.entities import RunDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class RunLine:
    """One run. `waiting` counts its steps that wait for agents; `error` is the failure on one line.

    `state` is what is stored; `status` what it does: that, or `retrying`, or `waiting` for what `waits_for` says, of
    those that `names` names. `attention`: nothing happens before somebody acts. `inputs` are its first input values.

    `parent` is the run that started it, if it is a child run.
    """

    run: str
    workflow: str
    state: str
    task_list: str
    created: int
    ended: int
    duration_ms: int
    waiting: int
    reason: str
    error: str
    parent: str = ""
    name: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    status: str = ""
    waits_for: str = ""
    names: str = ""
    attention: bool = False
    inputs: str = ""

    @property
    def status_words(self) -> str:
        """`waiting for a person`; the stored state where nobody looked further."""
        return RunStatus(self.status or self.state, self.waits_for).words


@dataclass(frozen=True)
class RunPage:
    """Runs, newest first; `next` is what to give as `before` for the page behind, empty on the last."""

    runs: list[RunLine]
    next: str


def list_runs(
    store: PersistenceAPI,
    *,
    state: RunStateName = "",
    workflow: WorkflowName = "",
    text: Text = "",
    since: Since = 0,
    until: Until = 0,
    tags: TagList = None,
    within: Within = "",
    longer_than: Longer = "",
    shorter_than: Shorter = "",
    min_cost: MinCost = 0,
    max_cost: MaxCost = 0,
    before: Annotated[str, about("Only older ones than this run.")] = "",
    limit: Limit = 20,
) -> RunPage:
    """List runs, newest first: what each does or waits for, its name, tags and first inputs."""
    start = run_store.find(store, before).workflow_id if before else ""
    wanted = run_filter(
        workflow=workflow,
        text=text,
        since=since,
        until=until,
        tags=tags,
        within=within,
        longer_than=longer_than,
        shorter_than=shorter_than,
        min_cost=min_cost,
        max_cost=max_cost,
        before=start,
        limit=limit + 1,
    )
    found = list(islice(matching(store, state, wanted), limit + 1))
    page = found[:limit]
    return RunPage(run_lines(store, page), page[-1][0].workflow_id if len(found) > limit else "")


def run_lines(store: PersistenceAPI, found: Sequence[Match]) -> list[RunLine]:
    """Runs with their states, one line each."""
    texts = store.get_leading_inputs([WorkflowId(run.workflow_id) for run, _ in found])
    return [
        run_line(run, status, leading_inputs(texts.get(WorkflowId(run.workflow_id), "")))
        for run, status in found
    ]


def run_line(run: RunDefinition, status: RunStatus | None = None, inputs: str = "") -> RunLine:
    """A run on one line; without a status that is derived, its stored state is its status."""
    failure = StepFailure.from_dict(run.error) if run.error else None
    known = status or RunStatus(run.state)
    return RunLine(
        run=run.workflow_id,
        workflow=run.workflow_name,
        state=run.state,
        task_list=run.task_list,
        created=run.created,
        ended=run.ended,
        duration_ms=max(0, (run.ended or wall_ms()) - run.created),
        waiting=run.waiting,
        reason=run.reason,
        error=f"{failure.text}{failure.where}" if failure is not None else "",
        parent=run.parent,
        name=run.name,
        tags=run.tags,
        status=known.status,
        waits_for=known.waits_for,
        names=known.names,
        attention=known.attention,
        inputs=inputs,
    )
