"""kill -9 of a runner on MongoDB: no lock tells of the death there, so its task goes on when its lease has ended."""

from __future__ import annotations

from pathlib import Path

from support.eventually import eventually
from support.warm_processes import WarmProcesses
from support.workshop import opened

from afl.kernel.presence import Life
from afl.runtime.entities import TaskState

LEASE = {"AFL_LEASE_MS": "2000"}


def test_the_task_of_a_killed_runner_runs_elsewhere_when_its_lease_has_ended(
    tmp_path: Path, mongo_database_url: str, warm: WarmProcesses
) -> None:
    with opened(tmp_path, mongo_database_url, warm) as workshop:
        workshop.hold(True)
        run = workshop.submit("t.One", n=1)
        victim = workshop.runner(**LEASE)
        held = workshop.wait_held(victim)
        claimed = workshop.task(run)
        assert (claimed.state, claimed.uuid) == (TaskState.RUNNING, held)
        assert [task.uuid for task in workshop.in_hand_of(victim)] == [held]
        heir = workshop.runner(**LEASE)
        eventually(lambda: workshop.task(run).lease_until > claimed.lease_until, victim.said)
        assert workshop.task(run).epoch == claimed.epoch  # it lives, it renews, and nobody takes it away
        victim.kill()
        last = workshop.task(run)
        assert workshop.store.life(last.owner) is Life.UNKNOWN
        assert workshop.wait_held(heir) == held
        taken = workshop.task(run)
        assert taken.epoch > last.epoch and taken.owner != last.owner
        assert workshop.store.now() > last.lease_until
        workshop.hold(False)
        outputs = workshop.wait_completed(run)
        first, second = workshop.calls()
        assert (first.pid, second.pid) == (victim.pid, heir.pid)
        assert outputs == {"m": 2, "stamp": second.stamp}
        assert (workshop.task(run).deliveries, workshop.task(run).deaths) == (2, 1)
        assert heir.terminate() == 0
