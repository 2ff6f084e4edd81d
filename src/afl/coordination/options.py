"""The options of a coordinator. Times are seconds, as floats."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

from afl.coordination.errors import CoordinatorInputError, CoordinatorSettingError
from afl.kernel.codec import MAX_PAYLOAD_BYTES

LONGEST_SECONDS = 10 * 365 * 86400.0  # beyond it microseconds exceed the integers that Lua represents exactly


@dataclass(frozen=True, slots=True)
class CoordinatorOptions:
    """The behavior of queues for one coordinator; not stored, so give all coordinators the same."""

    queue_size: int = 10_000
    """Messages an agent's queue takes: ready, delayed and in flight."""
    retry_attempts: int = 3
    """Failed attempts after which one more is made; 3 means at most four deliveries."""
    backoff_base: float = 1.0
    backoff_factor: float = 2.0
    backoff_max: float = 30.0
    jitter: float = 0.0
    """The part of a backoff that is left to chance: 0 none, 1 anything between nothing and the full delay."""
    aging: float = 0.0
    """Seconds of waiting that lift a message by one priority; 0 for strict priorities."""
    dedup_window: float = 0.0
    """Seconds within which a message_id is accepted once per queue; 0 for no check."""
    max_payload_bytes: int = MAX_PAYLOAD_BYTES
    audit_length: int = 1_000
    """Lines of the audit trail that are kept; 0 for none."""
    dead_letter_limit: int = 10_000
    """Dead letters that are kept; beyond it the oldest go."""
    fallback_interval: float = 5.0
    """How often a blocked receive looks although nothing rang."""
    reply_ttl: float = 300.0
    """How long a response waits for the one who asked."""

    def __post_init__(self) -> None:
        self._whole("queue_size", 1)
        self._whole("retry_attempts", 0)
        self._whole("max_payload_bytes", 2)
        self._whole("audit_length", 0)
        self._whole("dead_letter_limit", 1)
        for name in ("backoff_base", "backoff_max", "aging", "dedup_window"):
            self._number(name, 0, LONGEST_SECONDS)
        self._number("backoff_factor", 1, 1e6)
        self._number("jitter", 0, 1)
        self._number("fallback_interval", 0.001, LONGEST_SECONDS)
        self._number("reply_ttl", 0.001, LONGEST_SECONDS)

    def changed(self, **given: Any) -> CoordinatorOptions:
        """A copy with the options that are not None; an unknown name is an error."""
        known = {field.name for field in fields(self)}
        for name in given:
            if name not in known:
                raise CoordinatorSettingError(
                    f"unknown option {name!r}; there are {', '.join(sorted(known))}"
                )
        return replace(self, **{name: value for name, value in given.items() if value is not None})

    def _whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= 2**31:
            raise CoordinatorSettingError(f"{name} is {value!r}; expected a whole number of at least {least}")

    def _number(self, name: str, least: float, most: float) -> None:
        value = getattr(self, name)
        if not _is_number(value) or not least <= value <= most:
            raise CoordinatorSettingError(
                f"{name} is {value!r}; expected a number from {least:g} to {most:g}"
            )


def microseconds(what: str, seconds: float, *, least: float = 0.0) -> int:
    """A duration in microseconds; `what` names it in the error."""
    if not _is_number(seconds) or not least <= seconds <= LONGEST_SECONDS:
        raise CoordinatorInputError(
            f"{what} is {seconds!r}; expected seconds from {least:g} to {LONGEST_SECONDS:g}"
        )
    return int(seconds * 1_000_000)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
