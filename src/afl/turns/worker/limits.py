"""How far a worker goes: steps, waits, retries. What bounds the turns themselves is `model.Limits`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from afl.kernel.backoff import Backoff
from afl.kernel.errors import InputError
from afl.models.conversation import CORRECTIONS


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """Seconds where nothing else is said."""

    max_steps: int = 8
    suspend_timeout: float = 30.0
    max_defers: int = 3
    defer: Backoff = field(default_factory=lambda: Backoff(1.0, 2.0, 30.0))
    claim: int = 20
    concurrency: int = 64
    corrections: int = CORRECTIONS  # how often a model may correct a result that lacks required fields

    def __post_init__(self) -> None:
        for name in ("max_steps", "claim", "concurrency"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} is {getattr(self, name)!r}; expected at least 1")
        if self.corrections < 0:
            raise InputError(f"corrections is {self.corrections!r}; expected at least 0")
        if not self.suspend_timeout > 0:
            raise InputError(f"suspend_timeout is {self.suspend_timeout!r}; expected seconds, more than 0")

    def wait_seconds(self, tools: Iterable[float | None]) -> float:
        """How long a turn may stay suspended for tools with these times of their own: as long as the slowest."""
        return max([self.suspend_timeout, *(each for each in tools if each is not None)])

    def steps_left(self, done: int) -> int:
        return max(0, self.max_steps - done)


def warning(left: int, submit: bool) -> str:
    """What the model is told when its steps run out; `left` includes the one it takes now."""
    end = "call submit_result now" if submit else "give your final answer now"
    if left == 1:
        return f"This is your last step: no other tool can be called any more; {end}."
    if left == 2:
        return "Two steps are left: the next one is your last, so come to a result."
    return ""
