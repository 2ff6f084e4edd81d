"""What has become of tasks that were set off together: pure judgement, no tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

OPEN = frozenset({"pending", "dispatched"})


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task of a batch, as its row has it."""

    index: int
    agent_id: str
    status: str
    agent_turn_id: str | None = None
    output_box_id: str | None = None
    summary: str | None = None
    error: str | None = None

    @property
    def open(self) -> bool:
        return self.status in OPEN


def verdict(tasks: Sequence[BatchTask], *, fail_fast: bool, expired: bool) -> str | None:
    """How the batch ends, or None while it goes on."""
    failures = [task for task in tasks if not task.open and task.status != "success"]
    if fail_fast and failures:
        return "failed"
    if any(task.open for task in tasks):
        return _overall(tasks, "timeout") if expired else None
    return _overall(tasks, "")


def _overall(tasks: Sequence[BatchTask], late: str) -> str:
    """All success is success, some is partial; else the worst of what there is."""
    statuses = [late if task.open else task.status for task in tasks]
    if all(status == "success" for status in statuses):
        return "success"
    if "success" in statuses:
        return "partial"
    if any(status in ("failed", "canceled") for status in statuses):
        return "failed"
    return "timeout" if "timeout" in statuses else "partial"


def results(tasks: Sequence[BatchTask]) -> list[dict[str, Any]]:
    """What the one who asked is told, in the order in which it asked."""
    told = []
    for task in sorted(tasks, key=lambda each: each.index):
        one: dict[str, Any] = {"task_index": task.index, "status": task.status, "agent_id": task.agent_id}
        for key, value in (
            ("summary", task.summary),
            ("output_box_id", task.output_box_id),
            ("error", task.error),
        ):
            if value is not None:
                one[key] = value
        told.append(one)
    return told
