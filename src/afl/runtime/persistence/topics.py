"""The topics that the stores notify and workers subscribe to."""

from __future__ import annotations

RUNS_TOPIC = "runs"  # a run needs an evaluator
CANCEL_TOPIC = "cancel"  # work was taken away from those who do it
ELSEWHERE_TOPIC = "elsewhere"  # there is work for an agent, the fleet, a message or a person

_LONGEST = 200


def tasks_topic(task_list: str) -> str:
    """What notifies when a task of this list may be claimed."""
    return f"tasks:{_fit(task_list)}"


def run_topic(workflow_id: str) -> str:
    """What notifies when this run is over or paused."""
    return f"run:{_fit(workflow_id)}"


def logs_topic(runner_id: str) -> str:
    """What notifies when a run's log grows."""
    return f"logs:{_fit(runner_id)}"


def history_topic(workflow_id: str) -> str:
    """What notifies when a commit of this run has added to its history."""
    return f"history:{_fit(workflow_id)}"


def _fit(name: str) -> str:
    """A name that cannot be part of a topic is known by its digest."""
    if name.isprintable() and len(name.encode()) <= _LONGEST:
        return name
    import hashlib  # noqa: PLC0415  loads OpenSSL, and names so long are rare

    return hashlib.sha256(name.encode()).hexdigest()
