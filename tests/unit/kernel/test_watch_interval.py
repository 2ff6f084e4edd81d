"""When the notifier of a file reads next: found soon, and never in a hurry for long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.notify.file_watch import (
    BURST_READS,
    FIRST_SECONDS,
    GROWTH,
    LONGEST_SECONDS,
    SPACING_SECONDS,
    WatchInterval,
)


def quiet_reads(interval: WatchInterval, now: float, until: float) -> list[float]:
    """When reads fall if nothing more is written and nothing changes."""
    reads = []
    while now < until:
        reads.append(now)
        pause = interval.after_read(now, changed=False)
        now += pause.asleep + pause.watching
    return reads


@given(delay=st.floats(0.0, 30.0), start=st.floats(0.0, 1e6))
def test_a_commit_is_found_late_in_proportion_to_what_its_disk_took(delay: float, start: float) -> None:
    reads = quiet_reads(WatchInterval(), start, start + delay + LONGEST_SECONDS)
    found = min(at for at in reads if at >= start + delay)
    assert found - start - delay <= FIRST_SECONDS + min(delay * (GROWTH - 1) + 1e-6, LONGEST_SECONDS)


@given(silence=st.integers(0, 200))
def test_a_write_makes_haste_however_long_it_was_quiet(silence: int) -> None:
    interval, now = WatchInterval(), 0.0
    for _ in range(silence):
        pause = interval.after_read(now, changed=False)
        assert pause.asleep <= SPACING_SECONDS + 1e-9, "what is written meanwhile waits no longer than this"
        now += pause.asleep + pause.watching
    interval.written()
    pause = interval.after_read(now + LONGEST_SECONDS, changed=False)
    assert pause.asleep + pause.watching == FIRST_SECONDS


def test_after_a_burst_it_is_quiet() -> None:
    interval = WatchInterval()
    for at in range(10):
        interval.written()
        interval.after_read(at / 100, changed=True)
    reads = quiet_reads(interval, 0.1, 60.1)
    assert len(reads) < 60 + 60, "about one a second, and a few until it came to that"
    assert reads[-1] - reads[-2] == LONGEST_SECONDS


def test_a_change_after_the_last_write_leaves_nothing_to_wait_for() -> None:
    interval = WatchInterval()
    interval.after_read(0.0, changed=False)
    pause = interval.after_read(0.1, changed=True)
    assert pause.asleep + pause.watching == LONGEST_SECONDS


def test_a_change_among_writes_may_be_followed_by_another() -> None:
    interval = WatchInterval()
    interval.after_read(0.0, changed=False)
    interval.written()
    pause = interval.after_read(0.1, changed=True)
    assert pause.asleep + pause.watching == FIRST_SECONDS


@given(bits=st.binary(min_size=25, max_size=50))
def test_writes_without_end_do_not_cause_reads_without_end(bits: bytes) -> None:
    changes = [bool(byte >> place & 1) for byte in bits for place in range(8)]
    interval, now = WatchInterval(), 0.0
    for changed in changes:
        interval.written()  # it comes while asleep, or ends the listening at once
        now += interval.after_read(now, changed=changed).asleep
    assert now >= (len(changes) - BURST_READS) * SPACING_SECONDS - 1e-6
