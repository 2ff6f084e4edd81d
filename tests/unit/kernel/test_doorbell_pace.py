"""When the notifier of a file looks next: found soon, and never in a hurry for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.notify.watch_interval import (
    BURST_LOOKS,
    FIRST_SECONDS,
    GROWTH,
    LONGEST_SECONDS,
    SPACING_SECONDS,
    Pace,
)


def silent_looks(pace: Pace, now: float, until: float) -> list[float]:
    """When looks fall if nothing more is written and nothing changes."""
    looks = []
    while now < until:
        looks.append(now)
        rest = pace.looked(now, changed=False)
        now += rest.asleep + rest.listening
    return looks


@given(delay=st.floats(0.0, 30.0), start=st.floats(0.0, 1e6))
def test_a_commit_is_found_late_in_proportion_to_what_its_disk_took(delay: float, start: float) -> None:
    looks = silent_looks(Pace(), start, start + delay + LONGEST_SECONDS)
    found = min(at for at in looks if at >= start + delay)
    assert found - start - delay <= FIRST_SECONDS + min(delay * (GROWTH - 1) + 1e-6, LONGEST_SECONDS)


@given(silence=st.integers(0, 200))
def test_a_write_makes_haste_however_long_it_was_quiet(silence: int) -> None:
    pace, now = Pace(), 0.0
    for _ in range(silence):
        rest = pace.looked(now, changed=False)
        assert rest.asleep <= SPACING_SECONDS + 1e-9, "what is written meanwhile waits no longer than this"
        now += rest.asleep + rest.listening
    pace.written()
    rest = pace.looked(now + LONGEST_SECONDS, changed=False)
    assert rest.asleep + rest.listening == FIRST_SECONDS


def test_after_a_burst_it_is_quiet() -> None:
    pace = Pace()
    for at in range(10):
        pace.written()
        pace.looked(at / 100, changed=True)
    looks = silent_looks(pace, 0.1, 60.1)
    assert len(looks) < 60 + 60, "about one a second, and a few until it came to that"
    assert looks[-1] - looks[-2] == LONGEST_SECONDS


def test_a_change_after_the_last_write_leaves_nothing_to_wait_for() -> None:
    pace = Pace()
    pace.looked(0.0, changed=False)
    rest = pace.looked(0.1, changed=True)
    assert rest.asleep + rest.listening == LONGEST_SECONDS


def test_a_change_among_writes_may_be_followed_by_another() -> None:
    pace = Pace()
    pace.looked(0.0, changed=False)
    pace.written()
    rest = pace.looked(0.1, changed=True)
    assert rest.asleep + rest.listening == FIRST_SECONDS


@given(changes=st.lists(st.booleans(), min_size=200, max_size=400))
def test_writes_that_never_stop_do_not_make_looks_that_never_stop(changes: list[bool]) -> None:
    pace, now = Pace(), 0.0
    for changed in changes:
        pace.written()  # it comes while asleep, or ends the listening at once
        now += pace.looked(now, changed=changed).asleep
    assert now >= (len(changes) - BURST_LOOKS) * SPACING_SECONDS - 1e-6
