"""The spool: durable, in order, and handed on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
from support.processes import python

from afl.fleet.messages import Level, LogRecord, RunRecord, Status
from afl.fleet.spool import Spool
from afl.fleet.spool_folder import SpoolFolder, StreamName, next_records
from afl.kernel.database import Transaction
from afl.kernel.errors import StoreUnavailable

T = TypeVar("T")
NAME = StreamName("u@h/AG-1", "first")
OTHER = StreamName("u@h/AG-2", "second")

WRITER = """
import asyncio, sys
from afl.fleet.messages import RunRecord
from afl.fleet.spool import Spool
from afl.fleet.spool_folder import SpoolFolder, StreamName
from afl.fleet.messages import Status

async def main():
    spool = Spool(SpoolFolder(sys.argv[1]), StreamName("u@h/AG-1", "first"))
    while True:
        for _ in range(20):
            spool.add(RunRecord(seq=spool.next, run_id="r", epoch=1, status=Status.RUNNING, at=spool.next))
        await asyncio.sleep(0.0005)
        print(spool.durable, flush=True)

asyncio.run(main())
"""


def record(spool: Spool, at: int = 0, error: str = "") -> RunRecord:
    return RunRecord(seq=spool.next, run_id="r", epoch=1, status=Status.RUNNING, at=at, error=error)


def with_spool(folder: SpoolFolder, work: Callable[[Spool], Awaitable[T]], *, adopted: bool = False) -> T:
    async def working() -> T:
        spool = Spool(folder, NAME, adopted=adopted)
        try:
            return await work(spool)
        finally:
            await spool.close()

    return asyncio.run(working())


def adoptable(path: Path) -> list[StreamName]:
    """What another agent on the folder would take."""
    folder = SpoolFolder(path)
    try:
        return folder.adopt()
    finally:
        folder.close()


def numbers(records: list[bytes]) -> list[int]:
    return [msgspec.json.decode(one)["seq"] for one in records]


async def everything(spool: Spool) -> list[int]:
    found: list[int] = []
    while not found or found[-1] < spool.durable:
        found += numbers(await spool.batch(found[-1] if found else spool.acked, 10_000))
    return found


@pytest.mark.parametrize(("most", "expected"), [(25_000, [1, 2]), (1, [1]), (1_000_000, [1, 2, 3, 4])])
def test_of_a_backlog_no_more_is_read_than_is_sent(tmp_path: Path, most: int, expected: list[int]) -> None:
    async def work(spool: Spool) -> None:
        for _ in range(4):
            spool.add(record(spool, error="x" * 10_000))
        while spool.durable < 4:
            await spool.batch(spool.durable, 1)

    folder = SpoolFolder(tmp_path)
    with_spool(folder, work)
    found = folder.database.read(lambda tx: next_records(tx, NAME, 0, most))
    assert [number for number, _ in found] == expected
    folder.close()


def test_records_come_out_in_order_and_go_when_acknowledged(tmp_path: Path) -> None:
    async def work(spool: Spool) -> None:
        for number in range(2_500):
            spool.add(record(spool, number))
        while spool.durable < 2_500:
            await spool.batch(spool.durable, 1)
        assert await everything(spool) == list(range(1, 2_501))
        assert not spool.delivered
        spool.acknowledge(2_499)
        spool.acknowledge(7)
        assert numbers(await spool.batch(spool.acked, 10**9)) == [2_500]
        spool.acknowledge(2_500)
        assert spool.delivered

    folder = SpoolFolder(tmp_path / "agent")
    with_spool(folder, work)
    assert folder.adopt() == []
    folder.close()
    assert [path.name for path in (tmp_path / "agent").glob("*.live")] == []


def test_a_reader_waits_for_what_comes(tmp_path: Path) -> None:
    async def work(spool: Spool) -> list[int]:
        waiting = asyncio.create_task(spool.batch(0, 100))
        await asyncio.sleep(0)
        assert not waiting.done()
        spool.add(record(spool))
        found = numbers(await waiting)
        spool.acknowledge(1)
        return found

    folder = SpoolFolder(tmp_path)
    assert with_spool(folder, work) == [1]
    folder.close()


def test_what_was_left_is_the_next_agents_and_no_living_ones(tmp_path: Path) -> None:
    async def leave(spool: Spool) -> None:
        for _ in range(10):
            spool.add(record(spool))
        assert adoptable(tmp_path) == []
        await spool.batch(0, 1)
        spool.acknowledge(4)

    folder = SpoolFolder(tmp_path)
    with_spool(folder, leave)
    folder.close()

    async def deliver(spool: Spool) -> list[int]:
        assert spool.acked == 4
        left = await everything(spool)
        spool.acknowledge(left[-1])
        return left

    second = SpoolFolder(tmp_path)
    assert second.adopt() == [NAME]
    assert second.adopt() == []
    assert with_spool(second, deliver, adopted=True) == [5, 6, 7, 8, 9, 10]
    assert adoptable(tmp_path) == []
    second.close()


def test_a_stream_is_open_once(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path)
    folder.open(OTHER)
    second = SpoolFolder(tmp_path)
    with pytest.raises(StoreUnavailable):
        second.open(OTHER)
    second.close()
    folder.close()


def test_too_much_at_once_asks_for_a_pause(tmp_path: Path) -> None:
    async def work(spool: Spool) -> None:
        lines = msgspec.Raw(msgspec.json.encode(["x" * 1_000_000]))
        while not spool.full:
            spool.add(
                LogRecord(
                    seq=spool.next,
                    run_id="r",
                    epoch=1,
                    workflow_id="w",
                    workflow_name="W",
                    task_name="T",
                    task_instance_id="i",
                    at=0,
                    level=Level.INFO,
                    count=1,
                    lines=lines,
                )
            )
        room = asyncio.Event()
        spool.when_room(room.set)
        await room.wait()
        assert not spool.full

    folder = SpoolFolder(tmp_path)
    with_spool(folder, work)
    folder.close()


@pytest.mark.parametrize("reports", [1, 7, 30])
def test_what_was_durable_survives_kill_9_without_a_gap(tmp_path: Path, reports: int) -> None:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with python("-c", WRITER, str(tmp_path), PYTHONPATH=path) as writer:
        assert writer.stdout is not None
        said = 0
        while said == 0 or reports > 0:
            said = int(writer.stdout.readline())
            reports -= 1
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    folder = SpoolFolder(tmp_path)
    assert folder.adopt() == [NAME]
    found = with_spool(folder, everything, adopted=True)
    assert found == list(range(1, found[-1] + 1))
    assert found[-1] >= said > 0
    folder.close()


def test_a_disk_that_refuses_for_a_while_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    folder = SpoolFolder(tmp_path)
    write, refusals = folder.database.write, iter(range(3))

    def refusing(work: Callable[[Transaction], T]) -> T:
        if next(refusals, None) is not None:
            raise StoreUnavailable("the disk is full")
        return write(work)

    async def work() -> list[int]:
        spool = Spool(folder, NAME, retry_seconds=0.001)
        monkeypatch.setattr(folder.database, "write", refusing)
        spool.add(record(spool))
        spool.add(record(spool))
        await spool.batch(1, 1)
        found = numbers(await spool.batch(0, 10_000))
        await spool.close()
        return found

    assert asyncio.run(work()) == [1, 2]
    assert caplog.text.count("the disk is full") == 3
    folder.close()
