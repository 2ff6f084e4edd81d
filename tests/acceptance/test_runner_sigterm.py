"""SIGTERM under load: no task is lost; what ends in time runs once, what does not is given to others at once."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import Workshop, opened

from afl.runtime.entities import ServerState, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers

TASKS = 60
SLOTS = 3


@pytest.fixture(params=["sqlite", "postgres"])
def workshop(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    url = f"sqlite:///{tmp_path / 'afl.db'}"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_database")
    with opened(tmp_path, url, warm) as workshop:
        yield workshop
        warm.end_all()


def loaded(workshop: Workshop, seconds: str) -> Warm:
    """A runner whose slots are all at work, and all held."""
    workshop.hold(True)
    runner = workshop.runner(
        "--concurrency", str(SLOTS), "--shutdown-timeout", seconds, "--name", "first", AFL_LEASE_MS="60000"
    )
    eventually(lambda: len(workshop.held_by(runner)) == SLOTS, runner.said)
    in_flight = {task.uuid for task in workshop.in_hand_of(runner)}
    assert in_flight >= set(workshop.held_by(runner))
    return runner


def server_state(workshop: Workshop, name: str) -> str:
    (state,) = [each.state for each in workshop.store.get_all_servers() if each.server_name == name]
    return state


def test_handlers_that_end_in_time_run_once_and_the_rest_is_for_others(workshop: Workshop) -> None:
    run = workshop.submit("t.Fan", list=list(range(TASKS)))
    first = loaded(workshop, "60")
    held = set(workshop.held_by(first))
    first.signal(signal.SIGTERM)
    eventually(lambda: "Stopping" in first.said(), first.said)
    # It gives back what only waits for a slot before it waits for the rest.
    eventually(lambda: {task.uuid for task in workshop.in_hand_of(first)} == held, first.said)
    workshop.hold(False)
    assert first.wait() == 0
    assert "Stopped." in first.said()
    tasks = {task.uuid: task for task in workshop.tasks(run)}
    assert {uuid for uuid, task in tasks.items() if task.state == TaskState.COMPLETED} == held
    rest = [task for uuid, task in tasks.items() if uuid not in held]
    assert {(task.state, task.owner, task.deliveries, task.deaths) for task in rest} == {
        (TaskState.PENDING, "", 0, 0)
    }
    assert server_state(workshop, "first") == ServerState.SHUTDOWN
    second = workshop.runner()
    assert workshop.wait_completed(run)["all"] == [n * 2 for n in range(TASKS)]
    calls = Counter(call.task for call in workshop.calls())
    assert calls == dict.fromkeys(tasks, 1)
    assert {(task.deliveries, task.deaths) for task in workshop.tasks(run)} == {(1, 0)}
    assert second.terminate() == 0


def test_handlers_that_take_longer_are_fenced_and_delivered_again_at_once(workshop: Workshop) -> None:
    run = workshop.submit("t.Fan", list=list(range(TASKS)))
    first = loaded(workshop, "0.05")
    held = {task.uuid: task for task in workshop.in_hand_of(first) if task.uuid in workshop.held_by(first)}
    assert first.terminate() == 0
    assert f"Stopped; {SLOTS} tasks were not done in time" in first.said()
    for uuid, before in held.items():
        after = workshop.store.get_task(uuid)
        assert after is not None
        assert (after.state, after.owner, after.lease_until) == (TaskState.PENDING, "", 0)
        assert (after.deliveries, after.deaths) == (1, 0)
        assert after.epoch > before.epoch
    second = workshop.runner("--concurrency", str(SLOTS))
    eventually(lambda: set(workshop.held_by(second)) == held.keys(), second.said)
    workshop.hold(False)
    assert workshop.wait_completed(run)["all"] == [n * 2 for n in range(TASKS)]
    calls = Counter(call.task for call in workshop.calls())
    assert calls == {task.uuid: 1 + (task.uuid in held) for task in workshop.tasks(run)}
    assert {task.deaths for task in workshop.tasks(run)} == {0}
    assert second.terminate() == 0


def test_the_answer_of_one_that_was_given_up_is_refused(workshop: Workshop) -> None:
    """The process of `afl runner` ends and its handlers with it; a service inside of a program may live on."""
    begun, go_on, answered = threading.Event(), threading.Event(), threading.Event()

    def work(n: int) -> dict[str, Any]:
        begun.set()
        assert go_on.wait(60)
        answered.set()
        return {"m": -1, "stamp": "late"}

    run = workshop.submit("t.One", n=1)
    store = open_store(workshop.url)
    config = RunnerConfig(http=False, shutdown_timeout_ms=10)
    service = RunnerService(store, Evaluator(store), config, handlers=Handlers.of({"t.Work": work}))
    thread = threading.Thread(target=service.start)
    thread.start()
    assert begun.wait(60)
    service.stop()
    thread.join(60)
    assert not thread.is_alive() and service.abandoned == 1
    assert workshop.task(run).state == TaskState.PENDING
    workshop.hold(True)
    second = workshop.runner()
    workshop.wait_held(second)
    go_on.set()
    assert answered.wait(60)
    workshop.hold(False)
    outputs = workshop.wait_completed(run)
    assert outputs["m"] == 2 and outputs["stamp"] == workshop.calls()[0].stamp
    assert workshop.task(run).result == outputs
    store.close()
