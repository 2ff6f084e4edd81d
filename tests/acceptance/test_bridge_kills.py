"""The example with all bridges as real processes: it completes, and does so when each of them is killed at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.refund_stage import LETTER, RefundStage, refund_stage
from support.warm_processes import WarmProcesses

from afl.devstack import Stack, temporary_stack

PARTS = ["principal", "fleet agent", "turn worker", "runner", "message agent"]


@pytest.fixture(scope="module")
def own_servers() -> Iterator[Stack]:
    """Queues and subjects of these tests alone."""
    with temporary_stack() as stack:
        stack.up(["nats", "redis"])
        yield stack


@pytest.fixture(params=["sqlite", "servers"])
def stage(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses) -> Iterator[RefundStage]:
    environment = {"AFL_STORE": f"sqlite:///{tmp_path}/refunds.db"}
    if request.param == "servers":
        urls = request.getfixturevalue("own_servers").up(["nats", "redis"])
        database = request.getfixturevalue("postgres_database")
        environment = {"AFL_STORE": database, "AFL_BUS": urls["nats"], "AFL_REDIS": urls["redis"]}
    with refund_stage(tmp_path, warm, **environment) as stage:
        yield stage


def test_it_completes_and_every_side_works_once(stage: RefundStage) -> None:
    """Several of each: whoever hosts a bridge begins and settles, and it all happens once."""
    for part in [*PARTS, "runner 2", "turn worker 2", "message agent 2"]:
        stage.start(part)
    for side in ("agent", "fleet", "message"):
        stage.let_go(side)
    stage.submit()
    stage.approve()
    assert_refunded(stage)
    assert [stage.began(side) for side in ("agent", "fleet", "message")] == [1, 1, 1]


def test_it_completes_though_each_process_is_killed_at_work(stage: RefundStage) -> None:
    for part in PARTS:
        stage.start(part)
    stage.submit()
    stage.at_work("agent")
    replace(stage, "runner")
    replace(stage, "turn worker")
    stage.at_work("agent", times=2)  # the turn was taken over, and its call made again
    stage.let_go("agent")

    stage.at_work("fleet")
    replace(stage, "runner")
    replace(stage, "principal")
    assert stage.began("fleet") == 1  # the process itself went on
    replace(stage, "fleet agent")
    stage.at_work("fleet", times=2)  # the run was queued again, and is the same run
    stage.let_go("fleet")

    eventually(lambda: [task for task in stage.all_tasks() if task.via == "human:finance"], stage.said)
    replace(stage, "runner")
    stage.approve()

    stage.at_work("message")
    replace(stage, "runner")
    assert stage.began("message") == 1
    replace(stage, "message agent")
    stage.at_work("message", times=2)
    stage.let_go("message")
    assert_refunded(stage)


def replace(stage: RefundStage, part: str) -> None:
    """kill -9, and another one of its kind a moment later."""
    stage.kill(part)
    stage.start(part)


def assert_refunded(stage: RefundStage) -> None:
    run = stage.completed()
    assert run.state == "completed", run.error
    assert run.outputs == {"amount": 16.5, "receipt": "A-1017: 16.50 EUR", "letter": LETTER}
    assert stage.turns() == [stage.task("agent").uuid]
    assert stage.fleet_runs() == [stage.task("fleet").uuid]
    if "AFL_REDIS" in stage.environment:
        assert stage.messages()[-1:] == [stage.task("message").uuid]
        assert len(set(stage.messages())) == len(stage.messages())
