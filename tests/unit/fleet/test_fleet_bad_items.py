"""The principal's loops, each with one thing among many that cannot be stored: it is told once, the others go on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.fleet_stores import LEASE_MS, Keeper

from afl.fleet.messages import Status
from afl.fleet.principal import logs
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.log_sockets import LogReceiver
from afl.fleet.principal.monitor import Monitor
from afl.fleet.principal.registry import Registry
from afl.fleet.principal.retention import Retention
from afl.fleet.principal.scheduler import Scheduler
from afl.fleet.protocol import LogFrame
from afl.fleet.requests import GetLogs
from afl.fleet.zeromq import zmq
from afl.kernel.database import Query, connect

GET_AGENTS = Query.of("select agent_id from fleet_agents order by agent_id")
DAY_MS = 86_400_000


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    keeper = Keeper(connect("memory://"))
    with keeper.store.database:
        yield keeper


@pytest.fixture
def context(keeper: Keeper, tmp_path: Path) -> PrincipalContext:
    return PrincipalContext(keeper.store, Catalog(tmp_path), Registry(keeper.store.wall))


def refuse(keeper: Keeper, event: str, table: str, column: str, value: str) -> None:
    """From now on the store refuses this of one row, whatever else is in the transaction."""
    row = "old" if event == "delete" else "new"
    trigger = (
        f"create trigger refused_{event}_{table} before {event} on {table} when {row}.{column} = '{value}' "
        "begin select raise(abort, 'a bad row'); end"
    )
    keeper.change(lambda change: change.tx.run(Query.of(trigger)))


def told(caplog: pytest.LogCaptureFixture, name: str) -> int:
    """How often somebody is told of it."""
    return sum(record.levelno >= logging.WARNING and name in record.getMessage() for record in caplog.records)


def until(work: Callable[[], bool], *parts: object) -> None:
    """Let loops run until something is true; none of them may end."""

    async def wait() -> None:
        tasks = [asyncio.ensure_future(part) for part in parts]  # type: ignore[call-overload]
        async with asyncio.timeout(30):
            while not work():
                assert not any(task.done() for task in tasks)
                await asyncio.sleep(0.005)
        for task in tasks:
            task.cancel()

    asyncio.run(wait())


def test_one_agent_that_cannot_be_saved(
    keeper: Keeper, context: PrincipalContext, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(keeper, "insert", "fleet_agents", "agent_id", "bad")
    for name in ("a", "bad", "c"):
        context.registry.seen(name, f"{name}-1")

    async def watch() -> None:
        monitor = Monitor(context)
        await monitor.start()
        for _ in range(3):
            await monitor.look()
            keeper.now += 5_000

    asyncio.run(watch())
    rows = keeper.store.read(lambda tx: tx.all(GET_AGENTS))
    assert [row["agent_id"] for row in rows] == ["a", "c"]
    assert told(caplog, "agent bad") == 1


def test_a_number_that_no_store_can_hold_does_not_end_the_monitor(
    keeper: Keeper, context: PrincipalContext
) -> None:
    context.registry.seen("bad", "b-1", slots=2**63)
    context.registry.seen("good", "g-1", slots=1)
    until(lambda: bool(keeper.store.read(lambda tx: tx.all(GET_AGENTS))), Monitor(context).serve())


def test_one_run_that_cannot_be_judged(
    keeper: Keeper, context: PrincipalContext, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("a", "bad", "c"):
        keeper.enqueue(run_id, requeues=1)
        keeper.claim("i")
        keeper.say("i", run_id, 1, Status.RUNNING)
    refuse(keeper, "update", "fleet_runs", "run_id", "bad")
    keeper.now += LEASE_MS + 1

    async def watch() -> None:
        monitor = Monitor(context)
        for _ in range(3):
            await monitor.look()

    asyncio.run(watch())
    assert [keeper.run(run_id).status for run_id in ("a", "bad", "c")] == [
        Status.PENDING,
        Status.RUNNING,
        Status.PENDING,
    ]
    assert told(caplog, "run bad") == 1


def test_one_run_that_cannot_be_removed(
    keeper: Keeper, context: PrincipalContext, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("a", "bad", "c"):
        keeper.enqueue(run_id)
        keeper.cancel(run_id)
    refuse(keeper, "delete", "fleet_runs", "run_id", "bad")
    keeper.now += 2 * DAY_MS
    retention = Retention(context, 1)
    assert asyncio.run(retention.look()) == 2
    assert asyncio.run(retention.look()) == 0
    assert keeper.run("bad").status is Status.CANCELED
    assert told(caplog, "run bad") == 1


def test_one_workflow_that_cannot_be_scheduled(
    keeper: Keeper, context: PrincipalContext, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "bad", "c"):
        task = "tasks: {a: {name: A, config: !Subprocess {cmd: 'true'}}}"
        (tmp_path / f"{name}.yml").write_text(f"name: {name}\ncron: '0 0 0 1 1 *'\n{task}\n")
    scheduler = Scheduler(context, 0.01)
    refuse(keeper, "insert", "schedule", "name", "bad")
    known = Query.of("select name from schedule order by name")

    async def serve() -> None:
        await context.catalog.refresh()
        await scheduler.serve()

    until(lambda: len(keeper.store.read(lambda tx: tx.all(known))) == 2, serve())
    assert [row["name"] for row in keeper.store.read(lambda tx: tx.all(known))] == ["a", "c"]
    assert told(caplog, "workflow bad") == 1


def test_one_log_line_that_cannot_be_stored(
    keeper: Keeper, context: PrincipalContext, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(keeper, "insert", "fleet_log_blocks", "task_instance_id", "bad")

    def lines() -> list[str]:
        page = keeper.store.read(lambda tx: logs.page(tx, GetLogs()))
        return [line.payload for line in page.lines]

    async def serve() -> None:
        with (
            zmq.asyncio.Context() as sockets,
            sockets.socket(zmq.PULL) as pull,
            sockets.socket(zmq.PUSH) as push,
        ):
            pull.bind("inproc://lines")
            push.connect("inproc://lines")
            for number, name in enumerate(("a", "bad", "c")):
                await push.send(LogFrame("w", "W", "r", "T", name, number, "INFO", f"line {name}").frame())
            await LogReceiver(pull, context).serve()

    until(lambda: len(lines()) == 2, serve())
    assert lines() == ["line a", "line c"]
    assert told(caplog, "task bad") == 1
