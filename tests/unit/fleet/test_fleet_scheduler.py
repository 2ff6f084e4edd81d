"""The scheduler: runs come when they are due, workflows do not disturb each other, overlap and catch-up as asked."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.fleet_stores import Keeper

from afl.fleet.messages import Status
from afl.fleet.principal import views
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.registry import Registry
from afl.fleet.principal.scheduler import Scheduler
from afl.fleet.requests import ListRuns
from afl.kernel.database import Query, connect

START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
HOUR = 3_600_000


class Shop:
    """A scheduler whose clock a test sets, over a folder of workflow files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now = START
        self.keeper = Keeper(connect("memory://"))
        self.context = PrincipalContext(self.keeper.store, Catalog(folder), Registry(self.keeper.store.wall))
        self.scheduler = Scheduler(self.context, 0.5, now=lambda: self.now)

    def write(self, name: str, **keys: str) -> None:
        lines = [f"{key}: {value}" for key, value in keys.items()]
        task = "tasks: {a: {name: A, config: !Subprocess {cmd: 'true'}}}"
        (self.folder / f"{name}.yml").write_text("\n".join([f"name: {name}", *lines, task]))

    def look(self, now: int | None = None) -> float:
        """Read the folder, then fire what is due at a time; seconds until the next."""
        self.now = self.now if now is None else now
        return run(self._look())

    def runs(self, **filters: Any) -> list[str]:
        found = self.keeper.store.read(lambda tx: views.list_runs(tx, ListRuns(**filters)))
        return sorted(one.workflow_id for one in found)

    async def _look(self) -> float:
        if await self.context.catalog.refresh():
            self.scheduler.synchronize()
        return await self.scheduler.fire_due()


def run(work: Coroutine[Any, Any, float]) -> float:
    return asyncio.run(work)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    with shop.keeper.store.database:
        yield shop


def test_a_workflow_runs_when_it_is_due_and_the_next_time_is_known(shop: Shop) -> None:
    shop.write("hourly", cron="'0 0 * * * *'")
    assert shop.look() == HOUR / 1000
    assert shop.runs() == []
    assert shop.look(START + HOUR) == HOUR / 1000
    assert shop.look(START + HOUR + 1) < HOUR / 1000
    assert shop.runs() == ["hourly"]


def test_seconds_come_first_and_weekdays_count_from_sunday(shop: Shop) -> None:
    shop.write("second", cron="'*/10 * * * * *'")
    shop.write("friday", cron="'0 0 0 * * 5'")  # the second of January 2026
    assert shop.look() == 10
    shop.look(START + 10_000)
    assert shop.runs() == ["second"]
    shop.look(START + 24 * HOUR)
    assert "friday" in shop.runs()


def test_one_bad_cron_stops_no_other(shop: Shop) -> None:
    shop.write("good", cron="'0 0 * * * *'")
    shop.write("bad", cron="'0 0 99 * * *'")
    shop.look()
    broken = Query.of(
        "insert into schedule (part, name, cron, zone, catch_up, data, paused, due, look, fired, failures, error)"
        " values ('fleet', 'broken', 'x', 'UTC', 'none', 'null', 0, :due, :due, null, 0, '')"
    )
    shop.keeper.store.database.write(lambda tx: tx.run(broken, due=START))
    shop.look(START + HOUR)
    assert shop.runs() == ["good"]
    assert [problem.path.endswith("bad.yml") for problem in shop.context.catalog.problems] == [True]


def test_a_trigger_that_fails_stops_no_other_and_is_tried_again(shop: Shop) -> None:
    shop.write("good", cron="'0 0 * * * *'")
    shop.write("bad", cron="'0 0 * * * *'")
    shop.look()
    blocked = Query.of(
        "create trigger refuse before insert on fleet_runs when new.workflow_id = 'bad'"
        " begin select raise(abort, 'no'); end"
    )
    shop.keeper.store.database.write(lambda tx: tx.run(blocked))
    shop.look(START + HOUR)
    assert shop.runs() == ["good"]
    shop.keeper.store.database.write(lambda tx: tx.run(Query.of("drop trigger refuse")))
    shop.look(START + HOUR + 2_000)
    assert shop.runs() == ["bad", "good"]


def test_files_that_come_change_and_go(shop: Shop) -> None:
    shop.look()
    shop.write("late", cron="'0 0 * * * *'")
    assert shop.look() == HOUR / 1000
    shop.write("late", cron="'0 30 * * * *'")
    assert shop.look() == HOUR / 2000
    (shop.folder / "late.yml").unlink()
    shop.look(START + HOUR)
    assert shop.runs() == []


def test_no_run_before_the_start_time(shop: Shop) -> None:
    shop.write("later", cron="'0 0 * * * *'", start_time="2026-01-01T02:30:00+00:00")
    assert shop.look() == 3 * HOUR / 1000


@pytest.mark.parametrize(
    ("overlap", "statuses"),
    [
        ("allow", [Status.PENDING, Status.PENDING]),
        ("skip", [Status.PENDING]),
        ("queue", [Status.PENDING, Status.WAITING]),
    ],
)
def test_what_becomes_of_a_run_that_is_due_while_another_is_open(
    shop: Shop, overlap: str, statuses: list[Status]
) -> None:
    shop.write("w", cron="'0 0 * * * *'", overlap=overlap)
    shop.look()
    for hour in (1, 2):
        shop.look(START + hour * HOUR)
    found = shop.keeper.store.read(lambda tx: views.list_runs(tx, ListRuns()))
    assert [one.status for one in reversed(found)] == statuses


@pytest.mark.parametrize(("catch_up", "count"), [("none", 0), ("latest", 1), ("all", 3)])
def test_times_that_passed_while_nobody_was_there(shop: Shop, catch_up: str, count: int) -> None:
    shop.write("w", cron="'0 0 * * * *'", catch_up=catch_up)
    shop.look()
    for _ in range(4):
        shop.look(START + 3 * HOUR + 30 * 60_000)
    assert len(shop.runs()) == count


def test_a_waiting_agent_is_woken(shop: Shop) -> None:
    shop.write("w", cron="'0 0 * * * *'")
    shop.look()
    shop.now = START + HOUR

    async def fire() -> float:
        with shop.context.fetch_queue.join("agent", "i") as place:
            await shop.scheduler.fire_due()
            assert place.is_notified
        return 0.0

    run(fire())
    assert shop.runs() == ["w"]
