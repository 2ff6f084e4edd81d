"""Trying again what failed in a run that is over.

Only the steps that failed by themselves begin anew; what is above them waits for them again, what is complete stays.
A step that waited for a child run waits for it again, and what failed in there is tried again.
The counts of blocks are put right by whoever takes up the run (`recovery`).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StateError
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.events import mark_of_saved
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import FacetAttributes, ObjectType, StepId, WorkflowId

_RETRIED = (RunnerState.FAILED, RunnerState.CANCELED)
_MOST_CHILDREN = 10_000


def retry_run(persistence: PersistenceAPI, run: RunDefinition, step_id: StepId | None) -> int:
    """Let what failed in a run be tried again: all of it, or what failed in one step. How many steps."""
    if run.state not in _RETRIED:
        raise StateError(
            f"run {run.workflow_id} is {run.state}; only a failed or canceled run can be retried"
        )
    workflow_id = WorkflowId(run.workflow_id)
    changes = IterationChanges(run=run)
    steps = persistence.get_steps_by_workflow(workflow_id)
    done = {mark.id: mark for mark in map(mark_of_saved, steps) if mark is not None}
    changes.created_events += done.values()
    changes.consumed_events += [mark.id for mark in persistence.get_marks(workflow_id) if mark.id not in done]
    open_ones = not steps or any(not step.is_terminal for step in steps)
    stopped = run.state == RunnerState.CANCELED and step_id is None and open_ones
    tried = reopen(steps, changes, step_id or workflow_id, forked_at=_forked_at(run))
    if not tried and not stopped:
        raise StateError(f"no failed step in {step_id or workflow_id}; there is nothing to retry")
    _retry_children(persistence, run, changes)
    if run.parent_step:
        changes.created_runs.append(replace(run, parent_told=0))  # its parent may take it up again
    run.state = RunnerState.RUNNING if steps else RunnerState.CREATED
    run.error, run.ended, run.outputs, run.settled = None, 0, {}, False
    run.updated, run.reason = wall_ms(), ""
    changes.history.append(HistoryEvent(HistoryKind.RUN_RETRIED, run.updated))
    persistence.commit(changes)
    return tried or 1


def _retry_children(persistence: PersistenceAPI, run: RunDefinition, changes: IterationChanges) -> None:
    """Try again the child runs of the steps that begin anew. One in which nothing can be retried stays as it is."""
    children = persistence.get_children(run.workflow_id, states=_RETRIED, limit=_MOST_CHILDREN)
    newest = {child.parent_step: child for child in reversed(children)}
    for step_id in changes.changed_ids & newest.keys():
        with suppress(StateError):
            retry_run(persistence, newest[step_id], None)


def _forked_at(run: RunDefinition) -> str:
    """The step that a run was forked at, whose inputs somebody may have set; empty if it is no fork."""
    path = paths.relative(run.origin, WorkflowId(run.source))
    return paths.child(run.workflow_id, path) if path else ""


def reopen(
    steps: Iterable[StepDefinition], changes: IterationChanges, within: str, *, forked_at: str = ""
) -> int:
    """Reopen the failures at or below a step, and what waited when the run was canceled; how many begin anew.

    What waited does so again wherever it stands, as its task was canceled; what failed unnoticed begins anew likewise.
    A step that has its result, but was not evaluated with it before the run ended, keeps it. The step that the run
    was forked at keeps its inputs.
    """
    by_id = {step.id: step for step in steps}
    failed = {step.id for step in by_id.values() if step.is_error and not _was_caught(step.id, by_id)}
    above = {paths.parent(step_id) for step_id in failed}
    waiting = {step.id for step in by_id.values() if _waited(step)}
    causes = sorted((failed - above) | waiting)
    if not any(paths.is_within(cause, within) for cause in causes):
        return 0
    causes = [cause for cause in causes if cause in waiting or paths.is_within(cause, within)]
    for cause in causes:
        if cause == forked_at and by_id[cause].attributes.params and not by_id[cause].is_block:
            _begin_with_inputs(by_id[cause], changes)
        else:
            _begin_anew(by_id[cause], changes)
        _wait_again(cause, by_id, changes)
    return len(causes)


def _waited(step: StepDefinition) -> bool:
    """Whether a step waits without a result, or has failed without anybody having acted on it, as its catch would."""
    if step.is_error:
        error = step.transition.error
        return isinstance(error, StepFailure) and not error.step  # the evaluator says where it was
    return step.state == StepState.EVENT_TRANSMIT and mark_of_saved(step) is None


def _was_caught(step_id: StepId, by_id: dict[StepId, StepDefinition]) -> bool:
    """Whether something above has dealt with the failure: it has or opens a catch block for it, or is complete."""
    child = step_id
    while (above := by_id.get(paths.parent(child))) is not None:
        if above.is_complete or above.state == StepState.STATEMENT_CATCH_BEGIN:
            return True
        if paths.key(child) != "!" and paths.child(above.id, "!") in by_id:
            return True
        child = above.id
    return False


def _begin_anew(step: StepDefinition, changes: IterationChanges) -> None:
    if step.object_type == ObjectType.AND_REPEAT and step.progress is not None:
        changes.removed += [paths.child(step.id, f"#{number}") for number in step.progress.kept]
    kept = {} if step.statement_id is not None else step.attributes.params  # an element keeps its value
    step.attributes = FacetAttributes(kept, {})
    step.progress, step.ended = None, 0
    step.change_state(StepState.CREATED)
    step.transition.error = None
    changes.add_updated_step(step)


def _begin_with_inputs(step: StepDefinition, changes: IterationChanges) -> None:
    inputs = step.attributes.params
    _begin_anew(step, changes)
    step.attributes.params = inputs
    step.change_state(StepState.FACET_INIT_END)


def _wait_again(cause: StepId, by_id: dict[StepId, StepDefinition], changes: IterationChanges) -> None:
    """Let everything above that failed because of this wait for it again."""
    child = cause
    while (above := by_id.get(paths.parent(child))) is not None and above.is_error:
        above.change_state(_waits_in(above, paths.key(child)))
        above.transition.error, above.ended = None, 0
        changes.add_updated_step(above)
        child = above.id


def _waits_in(step: StepDefinition, key: str) -> str:
    """The state in which a step waits for this child."""
    if step.is_block:
        return StepState.BLOCK_EXECUTION_CONTINUE
    if key == "!":
        return StepState.STATEMENT_CATCH_CONTINUE
    return StepState.MIXIN_BLOCKS_CONTINUE if key.startswith("@") else StepState.STATEMENT_BLOCKS_CONTINUE
