"""How a state handler answers."""

from __future__ import annotations

from dataclasses import dataclass

from afl.runtime.step import StepDefinition


@dataclass(slots=True)
class StateChangeResult:
    """How a handler or a changer ended."""

    step: StepDefinition
    success: bool = True
    error: Exception | None = None
    continue_processing: bool = True
