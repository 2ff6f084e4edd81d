"""Deaths on MongoDB: of a runner, whose task goes on when its lease has ended, and of the primary under load."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from pymongo.errors import PyMongoError
from support.databases import with_database
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import opened

from afl.devstack import Stack, temporary_stack
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
        assert (workshop.task(run).deliveries, workshop.task(run).expiries) == (2, 1)
        assert heir.terminate() == 0


BUSY_TASKS = 200


@pytest.fixture(scope="module")
def own_mongo() -> Iterator[Stack]:
    """A MongoDB server of these tests alone: nobody else minds when it dies."""
    with temporary_stack() as stack:
        stack.up(["mongo"])
        yield stack


def kill(server: Stack, url: str, runner: Warm) -> None:
    """kill -9 of the primary, and its return on the same port once the runner has said that it is gone."""
    [status] = server.status()
    assert status.pid is not None
    os.kill(status.pid, signal.SIGKILL)
    server.down()
    eventually(lambda: "the store fails, trying again: " in runner.said(), runner.said)
    assert server.up(["mongo"])["mongo"] == url, "another port"


def step_down(server: Stack, url: str, runner: Warm) -> None:
    """It is no primary for a while, and closes all connections; then it is elected again."""
    with (
        MongoClient[Any](url) as client,
        suppress(PyMongoError),
    ):  # the answer may be lost with the connection
        client.admin.command("replSetStepDown", 2, force=True)


@pytest.mark.parametrize("outage", [kill, step_down])
def test_a_busy_runner_goes_on_when_there_is_a_primary_again(
    tmp_path: Path, own_mongo: Stack, warm: WarmProcesses, outage: Callable[[Stack, str, Warm], None]
) -> None:
    server = own_mongo.up(["mongo"])["mongo"]
    with opened(tmp_path, with_database(server, f"test_{uuid4().hex}"), warm) as workshop:
        run = workshop.submit("t.Fan", list=list(range(BUSY_TASKS)))
        runner = workshop.runner(AFL_LEASE_MS="60000")
        eventually(lambda: len(workshop.returns()) > 20, runner.said)
        workshop.close()
        outage(own_mongo, server, runner)
        done = len(workshop.returns())
        assert done < BUSY_TASKS, "it was done before the server was gone"
        assert workshop.wait_completed(run)["all"] == [n * 2 for n in range(BUSY_TASKS)]
        tasks = workshop.tasks(run)
        assert {task.deaths for task in tasks} == {0}
        assert Counter(call.task for call in workshop.calls()) == dict.fromkeys(
            [task.uuid for task in tasks], 1
        )
        assert "Traceback" not in runner.said()
        assert runner.terminate() == 0
        warm.end_all()
