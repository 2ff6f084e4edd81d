"""The clock of a worker's machine jumps by hours, forth or back: leases and deadlines do not mind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import SOURCE, Workshop, opened

from afl.runtime.entities import TaskState
from afl.runtime.types import WorkflowId

TIMED = """namespace c {
    workflow Timed(n: Long) => (m: Long) andThen {
        w = t.Work(n = $.n) with Timeout(minutes = 30)
        yield Timed(m = w.m)
    }
}
"""
LEASE_MS = 3000
TIMEOUT_MS = 30 * 60_000
SIX_HOURS = 6 * 3600


@pytest.fixture(params=["sqlite", "postgres"])
def workshop(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    url = f"sqlite:///{tmp_path / 'afl.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
    with opened(tmp_path, url, warm, SOURCE + TIMED) as workshop:
        yield workshop
        warm.end_all()


def runner(workshop: Workshop, clock: str) -> Warm:
    """A runner that believes in a clock of its own."""
    return workshop.runner(
        "--name", clock, AFL_LEASE_MS=str(LEASE_MS), CLOCK_FILE=str(workshop.folder / clock)
    )


def jump(workshop: Workshop, clock: str, seconds: int) -> None:
    (workshop.folder / clock).write_text(str(seconds))


def wait_renewals(workshop: Workshop, run: WorkflowId) -> None:
    """Until the lease of the run's task has been renewed twice; meanwhile everybody sweeps more often than that."""
    seen = {workshop.task(run).lease_until}

    def renewed() -> bool:
        seen.add(workshop.task(run).lease_until)
        return len(seen) > 2

    eventually(renewed, lambda: workshop.told(run))


@pytest.mark.parametrize("seconds", [SIX_HOURS, -SIX_HOURS])
def test_no_lease_ends_early_and_none_lasts_longer(workshop: Workshop, seconds: int) -> None:
    workshop.hold(True)
    run = workshop.submit("c.Timed", n=1)
    holder = runner(workshop, "holder")
    held = workshop.wait_held(holder)
    other = runner(workshop, "other")
    before = workshop.task(run)
    assert before.state == TaskState.RUNNING
    jump(workshop, "holder", seconds)
    jump(workshop, "other", -seconds)
    wait_renewals(workshop, run)
    after = workshop.task(run)
    assert (after.state, after.owner, after.epoch) == (TaskState.RUNNING, before.owner, before.epoch)
    now = workshop.store.now()
    assert now < after.deadline <= now + TIMEOUT_MS
    assert after.lease_until <= now + LEASE_MS
    # What a wrong clock must not do either: keep the dead alive.
    holder.kill()
    assert workshop.wait_held(other) == held
    workshop.hold(False)
    assert workshop.wait_completed(run) == {"m": 2}
    assert (workshop.task(run).deliveries, workshop.task(run).deaths) == (2, 1)
    assert other.terminate() == 0
