"""Picking up a run whose holder vanished between two fixed points.

Every stored iteration is whole, so the open steps stand at states in which they wait. What is not stored is who had
to look at what in the next iteration; it is found again from the rows, once.
"""

from __future__ import annotations

from afl.runtime.evaluation.context import ExecutionContext
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.types import ObjectType, StepId

_BATCH = 1000


def rescan(context: ExecutionContext, unread: set[StepId]) -> None:
    """Bring the open steps into memory and put on the agenda all that may have something to do.

    `unread` are steps whose failure is stored but stands in a mark still to be consumed; they count as waiting.
    """
    context.step(StepId(context.workflow_id))  # the root may have ended in the last stored iteration
    steps = context.persistence.get_open_steps(context.workflow_id)
    waiting = len(unread)
    for step in steps:
        context.adopt(step)
    parked = _park(context, steps)
    for step in steps:
        if step.state == StepState.EVENT_TRANSMIT:
            waiting += 1
            continue
        if parked and not parked.isdisjoint(paths.prefixes(step.id)):
            continue
        if step.state in _WITH_CHILDREN:
            _recount(context, step, unread)
        context.wake(step.id)
    if context.run is not None:
        context.run.waiting = waiting


def _park(context: ExecutionContext, steps: list[StepDefinition]) -> set[str]:
    """Elements over the limit of their foreach, which only a retry brings about: they begin when others end.

    They are marked by the state Created, in which no other element is ever stored. One in which a step has a result
    that came before the retry goes on first: its step is no more to be done.
    """
    transmitting = (step.id for step in steps if step.state == StepState.EVENT_TRANSMIT)
    waited = {above for step_id in transmitting for above in paths.prefixes(step_id)}
    elements: dict[StepId, list[StepDefinition]] = {}
    for step in steps:
        if paths.key(step.id).startswith("#"):
            elements.setdefault(paths.parent(step.id), []).append(step)
    parked: set[str] = set()
    for loop_id, opened in elements.items():
        frame = context.frame(loop_id)
        if frame.graph.limit is not None and frame.graph.until is None:  # that of a repeat counts iterations
            opened.sort(key=lambda step: (step.id not in waited, int(paths.key(step.id)[1:])))
            active = [step for step in opened if step.state != StepState.CREATED]
            for step in active[frame.limit() :]:
                step.change_state(StepState.CREATED)
                context.changes.touch(step)
            parked.update(step.id for step in opened if step.state == StepState.CREATED)
    return parked


def resume_parked(context: ExecutionContext, loop: StepDefinition, count: int) -> int:
    """Let the first parked elements of a foreach go on; how many."""
    found = [child for child in _children(context, loop) if child.state == StepState.CREATED][: max(0, count)]
    for element in found:
        if element.progress is not None:
            element.change_state(StepState.BLOCK_EXECUTION_CONTINUE)
        _resume(context, element)
    return len(found)


def _resume(context: ExecutionContext, step: StepDefinition) -> None:
    context.changes.touch(step)
    context.wake(step.id)
    if step.state in _WITH_CHILDREN:
        _recount(context, step, set())
        limited = step.object_type == ObjectType.AND_MAP and context.frame(step.id).graph.limit is not None
        for child in _children(context, step):
            if not child.is_terminal and not (limited and child.state == StepState.CREATED):
                _resume(context, child)


_WITH_CHILDREN = frozenset(
    {
        StepState.MIXIN_BLOCKS_CONTINUE,
        StepState.STATEMENT_BLOCKS_CONTINUE,
        StepState.STATEMENT_CATCH_CONTINUE,
        StepState.BLOCK_EXECUTION_CONTINUE,
    }
)


def _recount(context: ExecutionContext, step: StepDefinition, unread: set[StepId]) -> None:
    """Count a step's children from their rows, as if those that are over had just reported."""
    children = _children(context, step)
    progress = step.progress
    if progress is None:
        return
    parked = ended = 0
    if step.object_type == ObjectType.AND_REPEAT:
        ended = progress.opened - len(children)
    elif step.object_type == ObjectType.AND_MAP and context.frame(step.id).graph.limit is not None:
        parked = sum(child.state == StepState.CREATED for child in children)
    step.progress = BlockProgress(
        progress.total,
        opened=ended + len(children),
        active=len(children) - parked,
        complete=ended,
        idle=progress.idle,
    )
    step.transition.error = None
    context.changes.touch(step)
    over = [child for child in children if child.is_terminal and child.id not in unread]
    if over:
        context.inbox[step.id] = over
    if step.state == StepState.BLOCK_EXECUTION_CONTINUE and step.object_type not in _WITHOUT_STATEMENTS:
        _mark_done(context, step, over, {paths.key(child.id) for child in children})


_WITHOUT_STATEMENTS = frozenset({ObjectType.AND_MAP, ObjectType.AND_REPEAT, ObjectType.AND_WHEN})


def _mark_done(
    context: ExecutionContext, step: StepDefinition, over: list[StepDefinition], present: set[str]
) -> None:
    frame = context.frame(step.id)
    frame.exclude(present)
    frame.done.update(paths.key(child.id) for child in over if child.is_complete)


def _children(context: ExecutionContext, step: StepDefinition) -> list[StepDefinition]:
    ids = _child_ids(context, step)
    for first in range(0, len(ids), _BATCH):
        context.preload(ids[first : first + _BATCH])
    return [step for step in map(context.cached, ids) if step is not None]


def _child_ids(context: ExecutionContext, step: StepDefinition) -> list[StepId]:
    if step.state == StepState.BLOCK_EXECUTION_CONTINUE:
        graph = context.frame(step.id).graph
        opened = step.progress.opened if step.progress is not None else 0
        if step.object_type == ObjectType.AND_MAP:
            keys = [f"#{i}" for i in range(opened)]
        elif step.object_type == ObjectType.AND_REPEAT:
            keys = [f"#{opened - 1}"]  # those before it are complete, and most of them removed
        elif graph.cases and step.object_type != ObjectType.BLOCK:
            keys = [f"?{i}" for i in range(len(graph.cases))]
        else:
            keys = list(graph.by_key)
    elif step.state == StepState.STATEMENT_CATCH_CONTINUE:
        keys = ["!"]
    elif step.state == StepState.MIXIN_BLOCKS_CONTINUE:
        called = context.declaration(step)
        keys = [f"@{m.alias}" for m in called.mixins if m.alias] if called is not None else []
    else:
        keys = [str(i) for i in range(len(context.program.bodies_of(context.statement(step))))]
    return [paths.child(step.id, key) for key in keys]
