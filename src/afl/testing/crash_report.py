"""What crashes changed, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from afl.testing.crash_process import Record

_SHOWN = 5
_LONGEST = 500


@dataclass(frozen=True)
class Crash:
    """What became of a function whose process ended at the n-th passage of a place; '' is without a crash."""

    point: str
    count: int
    record: Record

    @property
    def name(self) -> str:
        """Where it was, as AFL_CRASH_AT takes it."""
        return f"{self.point}:{self.count}"


@dataclass(frozen=True)
class Difference:
    """One thing that is not as without a crash; `facet` names the handler that was called too often, if it is that."""

    crash: Crash
    text: str
    facet: str = ""


def differences(crashes: list[Crash], is_pure: Callable[[str], bool]) -> list[Difference]:
    """What is not as it was without a crash, which is the first of them."""
    plain, *others = crashes
    if plain.record.error:
        return [Difference(plain, f"it fails without any crash: {plain.record.error}")]
    uses_key = {facet for crash in crashes for facet in crash.record.uses_key}
    found: list[Difference] = []
    for crash in others:
        found += _of_calls(crash, plain.record, lambda facet: facet in uses_key or is_pure(facet))
        found += _of_result(crash, plain.record)
    return found


def _of_result(crash: Crash, plain: Record) -> list[Difference]:
    record = crash.record
    if record.error:
        return [Difference(crash, f"it fails: {record.error}")]
    if not record.ended:
        return [Difference(crash, "the process that resumed it ended without a result")]
    if record.result != plain.result:
        return [
            Difference(
                crash, f"it returns {_short(record.result)}, and {_short(plain.result)} without a crash"
            )
        ]
    return []


def _of_calls(crash: Crash, plain: Record, may_repeat: Callable[[str], bool]) -> list[Difference]:
    found = []
    calls = crash.record.calls
    for facet, key in sorted(plain.calls.keys() | calls.keys()):
        before, now = plain.calls[facet, key], calls[facet, key]
        if now > before > 0 and not may_repeat(facet):
            text = f"{facet} is called {_times(now)} for the key {key}, and {_times(before)} without a crash"
            found.append(Difference(crash, text, facet))
        elif not now or not before:
            there = "only with the crash" if now else "only without a crash"
            found.append(Difference(crash, f"{facet} is called for the key {key} {there}"))
    return found


def report(crashes: list[Crash], wrong: list[Difference]) -> str:
    """The message of a failed test."""
    if not wrong[0].crash.point:
        return wrong[0].text
    places = list(dict.fromkeys(each.crash.name for each in wrong))
    lines = [f"{len(places)} of {len(crashes) - 1} crashes changed something:"]
    for place in places[:_SHOWN]:
        lines.append(f"  crash at {place}")
        lines += [f"    {each.text}" for each in wrong if each.crash.name == place]
    if len(places) > _SHOWN:
        lines.append(f"  and at {', '.join(places[_SHOWN:])}")
    if facets := sorted({each.facet for each in wrong if each.facet}):
        lines.append(
            f"{', '.join(facets)}: called again without asking for context.idempotency_key. A handler is called at "
            "least once: pass the key to the system that it changes, or name the facet in pure= if it changes nothing."
        )
    return "\n".join(lines)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
