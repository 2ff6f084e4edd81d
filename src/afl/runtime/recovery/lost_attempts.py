"""How a task lost the workers that had claimed it."""

from __future__ import annotations

from afl.runtime.entities import TaskDefinition


def what_was_lost(task: TaskDefinition) -> str:
    """How attempts of a task were lost, in words."""
    times = "once" if task.expiries == 1 else f"{task.expiries} times"
    died = f"{task.deaths} workers" if task.deaths > 1 else "its worker"
    parts = [f"{died} died while working on it"] if task.deaths else []
    parts += [f"its lease expired {times} without being renewed"] if task.expiries else []
    return " and ".join(parts)
