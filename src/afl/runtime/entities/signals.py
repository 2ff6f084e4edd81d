"""Signals: values that somebody outside sends to a run by a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class SignalDefinition:
    """One signal to a run. `seq` is its place in the order of delivery, `task_id` the task that received it, if any.

    `unreadable` says why the stored value could not be read.
    """

    workflow_id: str
    id: str
    name: str
    value: dict[str, Any] = field(default_factory=dict)
    created: int = 0
    seq: int = 0
    task_id: str = ""

    unreadable = ""  # without a type: it is no field, and not stored
