"""The critical path of a run: the steps that each began when the one before was over, up to the run's end.

To end a run sooner, one of these has to be faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.step import StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId

_Children = dict[str, dict[str, StepLine]]


def critical_steps(lines: Sequence[StepLine], program: Program, workflow_id: WorkflowId) -> set[StepId]:
    """The steps of the path, those that hold others included; open ones count as the last to end."""
    children: _Children = {}
    for line in lines:
        if paths.relative(line.id, workflow_id):
            children.setdefault(paths.parent(line.id), {})[paths.key(line.id)] = line
    found: set[StepId] = set()
    repeats = {str(line.id) for line in lines if line.object_type == ObjectType.AND_REPEAT}
    open_ones = [str(line.id) for line in lines if not paths.relative(line.id, workflow_id)]
    while open_ones:
        holder = open_ones.pop()
        for step in _chain(holder, children.get(holder, {}), holder in repeats, program, workflow_id):
            found.add(step)
            open_ones.append(str(step))
    return found


def _chain(
    holder: str, inside: dict[str, StepLine], is_repeat: bool, program: Program, workflow_id: WorkflowId
) -> Iterable[StepId]:
    """Of what stands in one step or block: the last to end, the one it waited for, and so on."""
    step, seen = _last(inside.values()), set[StepId]()
    path = paths.relative(holder, workflow_id)
    while step is not None and step.id not in seen:
        seen.add(step.id)
        yield step.id
        key = paths.key(step.id)
        if key == "!":
            before: Iterable[str] = [each for each in inside if each.isdigit()]
        elif key.startswith("#"):
            before = [f"#{int(key[1:]) - 1}"] if is_repeat else []
        else:
            before = _needs(program, path, key)
        step = _last(inside[each] for each in before if each in inside)


def _last(steps: Iterable[StepLine]) -> StepLine | None:
    return max(steps, key=lambda line: (not line.ended, line.ended, line.started), default=None)


def _needs(program: Program, path: str, key: str) -> list[str]:
    """What a statement, or an inline body of it, refers to."""
    if paths.is_block(key):
        return []
    statement = program.place(f"{path}/{key}" if path else key).statement
    graph = program.place(path).graph
    inner = graph.body_needs.items() if graph is not None else ()
    outside = [name for name, bodies in inner if any(owner == key for owner, _ in bodies)]
    return [*(statement.needs if statement is not None else ()), *outside]
