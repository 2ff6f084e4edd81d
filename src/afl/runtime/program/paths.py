"""Step ids are paths: the run's id, then one segment per level (see afl.runtime.program.block for the segments).

Because of that the parent, the owner and the siblings of a step are known without asking the store.
"""

from __future__ import annotations

from afl.runtime.types import BlockId, StepId, WorkflowId

_BLOCK_MARKS = frozenset("0123456789#?!")


def child(parent: str, key: str) -> StepId:
    """The id of a step below another."""
    return StepId(f"{parent}/{key}")


def parent(step_id: str) -> StepId:
    """The step that waits for this one; empty for a root."""
    return step_id.rpartition("/")[0]  # type: ignore[return-value]  # asked so often that StepId() shows


def key(step_id: str) -> str:
    """The last segment."""
    return step_id.rpartition("/")[2]


def prefixes(path: str) -> list[str]:
    """The path of everything above, the outermost first, and the path itself."""
    segments = path.split("/")
    return ["/".join(segments[: count + 1]) for count in range(len(segments))]


def is_within(step_id: str, above: str) -> bool:
    """Whether a step is that one, or below it."""
    return step_id == above or step_id.startswith(f"{above}/")


def relative(step_id: str, workflow_id: WorkflowId) -> str:
    """The path inside the run; empty for the root."""
    return step_id[len(workflow_id) + 1 :]


def is_block(segment: str) -> bool:
    """Whether a segment names a block rather than a statement or mixin."""
    return segment[:1] in _BLOCK_MARKS


def owner(block_id: str, workflow_id: WorkflowId) -> StepId:
    """The step that a block (or a foreach element, or a case of a when) belongs to."""
    current = parent(block_id)
    while len(current) > len(workflow_id) and is_block(key(current)):
        current = parent(current)
    return current


def block(step_id: str) -> BlockId:
    """The block a statement's step stands in."""
    return BlockId(parent(step_id))


def shown(step_id: str, workflow_id: WorkflowId) -> str:
    """The path as people read it: `fetch[3].parse`, with blocks left out; empty for the root."""
    text = ""
    for segment in relative(step_id, workflow_id).split("/"):
        if segment.startswith("#"):
            text += f"[{segment[1:]}]"
        elif not is_block(segment):
            name = {">": "yield", "~": "sys"}.get(segment[:1], segment)
            text += f".{name}" if text else name
    return text
