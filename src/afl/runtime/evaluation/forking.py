"""Forking a run at a step: a new run that begins with copies of the steps that do not depend on it.

It is stored as a run that its evaluator left between two fixed points, so whoever takes it up goes on with it as with
any other (`rescan`). The source is read, and not changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.errors import CorruptRow
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.evaluation.fork_check import (
    ChildInProgress,
    ForkRefused,
    StepNotBegun,
    check_edits,
    check_program,
    plan_with,
)
from afl.runtime.evaluation.fork_plan import ForkPlan, called_by, plan_fork
from afl.runtime.evaluation.fork_steps import ForkEdits, ForkedSteps
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges, PublishedValue
from afl.runtime.program import paths
from afl.runtime.program.built_in_steps import PUBLISH
from afl.runtime.program.inputs import check_inputs
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

_OPEN = (RunnerState.CREATED, RunnerState.RUNNING, RunnerState.PAUSED)
_MOST_CHILDREN = 10_000
_MOST_FORKS = 100  # of a fork of a fork; results of agents are looked for so far back
_BEHIND_EVENT = (StepState.STATEMENT_BLOCKS_CONTINUE, StepState.STATEMENT_CATCH_CONTINUE)
NO_EDITS = ForkEdits()


@dataclass(frozen=True)
class Fork:
    """A run that is to be stored, with its steps.

    Of the steps that agents do, or did in the source: `kept` are not done again, `again` are.
    """

    run: RunDefinition
    changes: IterationChanges
    kept: int
    again: int


def fork_run(
    store: PersistenceAPI,
    source: RunDefinition,
    chosen: str,
    *,
    id: str,
    program: Program,
    known_program: Program | None = None,
    edits: ForkEdits = NO_EDITS,
) -> Fork:
    """The fork of a run at the step of a path, not stored yet; ForkRefused tells what speaks against it.

    `program` is what it executes; `known_program` that of the source, if it is another one.
    """
    workflow_id = WorkflowId(source.workflow_id)
    steps = {paths.relative(step.id, workflow_id): step for step in store.get_steps_by_workflow(workflow_id)}
    _check_readable(source, steps)
    _check_begun(known_program or program, steps, chosen)
    if known_program is None:
        plan = plan_fork(program, steps, chosen, edits.results)
    else:
        plan = plan_with(program, steps, chosen, edits)
        check_program(known_program, program, plan, steps)
    check_edits(program, plan, steps, chosen, edits)
    _check_children(store, source, plan)
    run = _new_run(source, program, id, chosen)
    made = ForkedSteps(
        program,
        plan,
        (workflow_id, steps),
        (WorkflowId(id), run.created),
        chosen,
        edits,
        _event_results(store, program, source, plan, steps),
    )
    changes = IterationChanges(run=run, new_run=True)
    for step in made.all():
        if step.id == id:  # another program may have inputs that the source has not
            missing = {
                name: value for name, value in run.inputs.items() if name not in step.attributes.params
            }
            for name, value in missing.items():
                step.set_attribute(name, value)
        changes.add_created_step(step)
    changes.published = _published(store, source, plan, steps, run)
    events = [path for path, step in steps.items() if _is_event(program, path, step)]
    kept = sum(path in plan.kept for path in events)
    return Fork(run, changes, kept, len(events) - kept)


def store_fork(store: PersistenceAPI, fork: Fork) -> None:
    """Store a fork, all of it or nothing."""
    crashpoint.reach("commit.before")
    store.commit(fork.changes)
    crashpoint.reach("commit.after")


def _check_readable(source: RunDefinition, steps: Mapping[str, StepDefinition]) -> None:
    unreadable = source.unreadable or next(
        (each.unreadable for each in steps.values() if each.unreadable), ""
    )
    if unreadable:
        raise CorruptRow(unreadable)


def _check_begun(program: Program, steps: Mapping[str, StepDefinition], chosen: str) -> None:
    if not chosen:
        raise ForkRefused("that is the run itself; `afl rerun RUN` starts it again from its beginning")
    if chosen in steps:
        return
    shown = paths.shown(f"/{chosen}", WorkflowId(""))
    for path, _, number in program.repeats_around(chosen):
        repeat = steps.get(path)
        if repeat is not None and repeat.progress is not None and number < repeat.progress.kept.start:
            raise StepNotBegun(
                f"{shown} was removed: of a repeat the last {len(repeat.progress.kept)} iterations are kept"
            )
    raise StepNotBegun(f"{shown} has not started; there is nothing to execute again")


def _check_children(store: PersistenceAPI, source: RunDefinition, plan: ForkPlan) -> None:
    for child in store.get_children(source.workflow_id, states=_OPEN, limit=_MOST_CHILDREN):
        path = paths.relative(child.parent_step, WorkflowId(source.workflow_id))
        if path not in plan.kept:
            shown = paths.shown(f"/{path}", WorkflowId(""))
            raise ChildInProgress(
                f"{shown} would be executed again, and its child run {child.workflow_id} is {child.state}"
            )


def _new_run(source: RunDefinition, program: Program, id: str, chosen: str) -> RunDefinition:
    now = wall_ms()
    same = program.hash == source.program_hash
    return RunDefinition(
        workflow_id=id,
        workflow_name=program.workflow.name,
        program_hash=program.hash,
        state=RunnerState.RUNNING,
        flow_id=source.flow_id if same else "",
        task_list=source.task_list,
        inputs=check_inputs(program, source.inputs),
        created=now,
        updated=now,
        name=source.name,
        tags=dict(source.tags),
        origin=paths.child(source.workflow_id, chosen),
    )


def _is_event(program: Program, path: str, step: StepDefinition) -> bool:
    if step.is_block or step.statement_id is None:
        return False
    try:
        called, statement = called_by(program, path), program.place(path).statement
    except (LookupError, ValueError, StopIteration):  # another program, without this step
        return False
    return (called is not None and called.is_event) or (
        statement is not None and statement.child_run is not None
    )


def _event_results(
    store: PersistenceAPI,
    program: Program,
    source: RunDefinition,
    plan: ForkPlan,
    steps: Mapping[str, StepDefinition],
) -> dict[str, Mapping[str, Any]]:
    """What the agents of reopened steps returned, before blocks of the steps yielded something else."""
    behind = [path for path, state in plan.reopened.items() if state in _BEHIND_EVENT]
    return {
        path: _event_result(store, source, path, steps[path])
        for path in behind
        if path and _is_event(program, path, steps[path])
    }


def _event_result(
    store: PersistenceAPI, source: RunDefinition, path: str, step: StepDefinition
) -> Mapping[str, Any]:
    """The result in the step's task; that of a step which a fork kept is in the run that it was forked from."""
    run: RunDefinition | None = source
    for _ in range(_MOST_FORKS):
        if run is None:
            break
        task = store.get_task_by_step(StepId(f"{run.workflow_id}/{path}"))
        if task is not None:
            return task.result or {}
        run = store.get_run(WorkflowId(run.source)) if run.source else None
    return {name: attribute.value for name, attribute in step.attributes.returns.items()}


def _published(
    store: PersistenceAPI,
    source: RunDefinition,
    plan: ForkPlan,
    steps: Mapping[str, StepDefinition],
    run: RunDefinition,
) -> dict[str, PublishedValue]:
    """What the kept steps have published; the latest of each name."""
    kept = [
        steps[path] for path in plan.kept if steps[path].facet_name == PUBLISH and steps[path].is_complete
    ]
    if not kept:
        return {}
    latest = {each.name: each.value for each in store.get_published(WorkflowId(source.workflow_id))}
    published: dict[str, PublishedValue] = {}
    for step in sorted(kept, key=lambda each: (each.ended, each.id)):
        name, value = str(step.get_attribute("name")), step.get_attribute("value")
        if name in published and name in latest and published[name].value == latest[name]:
            continue  # several in one millisecond
        published[name] = PublishedValue(WorkflowId(run.workflow_id), name, value, run.created)
    return published
