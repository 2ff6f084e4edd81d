"""Where a run comes from and what comes of it: the run whose step started it, and the runs that its steps started."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from afl.operations.run.run_programs import program_cache
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.step import StepDefinition
from afl.runtime.types import WorkflowId

SHOWN = 100
REMOVED = "removed"


@dataclass(frozen=True)
class ParentRun:
    """The run that started another one by `step`; `path` leads to that. `state` is "removed" if it is gone.

    `on_close` says what becomes of the child when the parent ends: cancel or detach.
    """

    run: str
    workflow: str
    state: str
    step: str
    path: str
    on_close: str


@dataclass(frozen=True)
class ChildRun:
    """A run that a step started; `path` leads to the step."""

    run: str
    workflow: str
    state: str
    step: str
    path: str


@dataclass(frozen=True)
class Origin:
    """The run that another one repeats: from its beginning, or, as a fork, from `step`, to which `path` leads.

    `state` is "removed" if it is gone.
    """

    run: str
    state: str
    step: str = ""
    path: str = ""


@dataclass(frozen=True)
class Copy:
    """A run that repeats another one: from its beginning, or, as a fork, from `step`, to which `path` leads."""

    run: str
    state: str
    created: int
    step: str = ""
    path: str = ""


@dataclass(frozen=True)
class Lineage:
    """The parent of a run, its newest children (at most 100), and how many there are in all, by their states.

    `origin` is the run that it repeats; `copies` are the newest runs (at most 100) that repeat it.
    """

    parent: ParentRun | None = None
    origin: Origin | None = None
    copies: list[Copy] = field(default_factory=list)
    children: list[ChildRun] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many children there are."""
        return sum(self.counts.values())


def lineage(store: PersistenceAPI, run: RunDefinition) -> Lineage:
    """The lineage of a run."""
    found = Lineage(
        parent=_parent(store, run) if run.parent_step else None,
        origin=_origin(store, run) if run.origin else None,
        copies=[_copy(each) for each in store.get_runs_from(run.workflow_id, SHOWN)],
    )
    if not program_cache(store).load(run.program_hash).may_start_runs:
        return found
    counts = store.count_children(run.workflow_id)
    return replace(found, children=children_of(store, run.workflow_id), counts=counts)


def was_kept(run: RunDefinition, step: StepDefinition) -> bool:
    """Whether a run is a fork that has taken over a step with its results: such steps took no time in it."""
    return "/" in run.origin and step.is_terminal and step.started == step.ended == run.created


def children_of(store: PersistenceAPI, started_by: str) -> list[ChildRun]:
    """The newest runs that a run, or a step and those below it, started."""
    return [_child(each) for each in store.get_children(started_by, limit=SHOWN)]


def _parent(store: PersistenceAPI, run: RunDefinition) -> ParentRun:
    found = store.get_run(WorkflowId(run.parent))
    return ParentRun(
        run=run.parent,
        workflow=found.workflow_name if found is not None else "",
        state=found.state if found is not None else REMOVED,
        step=paths.shown(run.parent_step, WorkflowId(run.parent)),
        path=paths.relative(run.parent_step, WorkflowId(run.parent)),
        on_close=run.on_parent_close,
    )


def _origin(store: PersistenceAPI, run: RunDefinition) -> Origin:
    source = WorkflowId(run.source)
    found = store.get_run(source)
    state = found.state if found is not None else REMOVED
    return Origin(run.source, state, paths.shown(run.origin, source), paths.relative(run.origin, source))


def _copy(run: RunDefinition) -> Copy:
    source = WorkflowId(run.source)
    step, path = paths.shown(run.origin, source), paths.relative(run.origin, source)
    return Copy(run.workflow_id, run.state, run.created, step, path)


def _child(run: RunDefinition) -> ChildRun:
    parent = WorkflowId(run.parent)
    return ChildRun(
        run=run.workflow_id,
        workflow=run.workflow_name,
        state=run.state,
        step=paths.shown(run.parent_step, parent),
        path=paths.relative(run.parent_step, parent),
    )
