"""Schedules on every store: times, catch-up, one firing each, and failures that stay where they are."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.errors import ScheduleError, StoreUnavailable
from afl.kernel.schedule import CatchUp, Firing, Schedule, Schedules, ScheduleStatus

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    is_server = request.param == "postgres"
    file = f"sqlite:///{tmp_path}/afl.db"
    with request.getfixturevalue("kept_postgres").take() if is_server else connect(file) as database:
        yield database


@pytest.fixture
def schedules(database: Database) -> Schedules:
    return Schedules(database)


class Witness:
    """Fires by writing down what fired."""

    def __init__(self, database: Database, schedules: Schedules) -> None:
        self.database, self.schedules = database, schedules
        database.write(
            lambda tx: tx.run(
                Query.of("create table if not exists fired (name text not null, due bigint not null)")
            )
        )

    def put(self, name: str, cron: str, now: int = START, **options: object) -> int | None:
        schedule = Schedule("fleet", name, cron, **options)  # type: ignore[arg-type]
        return self.database.write(lambda tx: self.schedules.put(tx, schedule, now))

    def fire(self, tx: Transaction, firing: Firing) -> None:
        tx.run(
            Query.of("insert into fired (name, due) values (:name, :due)"), name=firing.name, due=firing.due
        )

    def at(self, now: int) -> int:
        return self.schedules.fire_due("fleet", self.fire, now=now)

    def fired(self) -> list[tuple[str, int]]:
        rows = self.database.select(Query.of("select name, due from fired order by due, name"))
        return [(row["name"], row["due"] - START) for row in rows]

    def status(self, name: str) -> ScheduleStatus:
        found = self.database.read(lambda tx: self.schedules.show(tx, "fleet"))
        return next(status for status in found if status.schedule.name == name)


@pytest.fixture
def witness(database: Database, schedules: Schedules) -> Witness:
    return Witness(database, schedules)


def test_a_schedule_fires_when_it_is_due_and_once(witness: Witness) -> None:
    assert witness.put("a", "0 * * * *") == START + HOUR
    assert [witness.at(START + HOUR - 1), witness.at(START + HOUR), witness.at(START + HOUR)] == [0, 1, 0]
    assert witness.at(START + 2 * HOUR + 5) == 1
    assert witness.fired() == [("a", HOUR), ("a", 2 * HOUR)]
    assert witness.status("a").due == START + 3 * HOUR
    assert witness.status("a").fired == START + 2 * HOUR


def test_a_firing_carries_its_data_and_a_key_of_its_own(database: Database, schedules: Schedules) -> None:
    data = {"workflow": "etl.daily"}
    database.write(lambda tx: schedules.put(tx, Schedule("fleet", "a", "@hourly", data=data), START))
    firings: list[Firing] = []
    schedules.fire_due("fleet", lambda tx, firing: firings.append(firing), now=START + HOUR)
    assert firings == [Firing("fleet", "a", START + HOUR, data)]
    assert firings[0].key == f"fleet/a@{START + HOUR}"


def test_parts_are_apart(database: Database, schedules: Schedules) -> None:
    for part in ("fleet", "runtime"):
        database.write(lambda tx, part=part: schedules.put(tx, Schedule(part, "a", "@hourly"), START))  # type: ignore[misc]
    assert schedules.fire_due("fleet", lambda tx, firing: None, now=START + HOUR) == 1
    assert schedules.next_look("fleet") == START + 2 * HOUR
    assert schedules.next_look("runtime") == START + HOUR
    assert schedules.next_look("turns") is None


@pytest.mark.parametrize(
    ("catch_up", "expected"),
    [
        (CatchUp.ALL, [HOUR, 2 * HOUR, 3 * HOUR]),
        (CatchUp.LATEST, [3 * HOUR]),
        (CatchUp.NONE, []),
    ],
)
def test_what_becomes_of_missed_times(witness: Witness, catch_up: CatchUp, expected: list[int]) -> None:
    witness.put("a", "0 * * * *", catch_up=catch_up)
    while witness.at(START + 3 * HOUR + 10 * MINUTE):
        pass
    assert witness.fired() == [("a", due) for due in expected]
    assert witness.status("a").due == START + 4 * HOUR


def test_a_little_late_is_not_missed(witness: Witness) -> None:
    witness.put("a", "0 * * * *", catch_up=CatchUp.NONE)
    assert witness.at(START + 3 * HOUR + MINUTE) == 1
    assert witness.fired() == [("a", 3 * HOUR)]


def test_a_year_of_seconds_is_caught_up_without_counting_them(witness: Witness) -> None:
    witness.put("a", "* * * * * *")
    assert witness.at(START + 365 * DAY) == 1
    assert witness.fired() == [("a", 365 * DAY)]


def test_time_zones(witness: Witness) -> None:
    assert witness.put("a", "0 9 * * *", zone="Asia/Tokyo") == START + DAY
    assert witness.put("b", "0 9 * * *", zone="America/New_York") == START + 14 * HOUR


def test_putting_it_back_unchanged_loses_no_missed_time(witness: Witness) -> None:
    witness.put("a", "0 * * * *")
    assert witness.put("a", "0 * * * *", now=START + 2 * HOUR + 1, data="new") == START + HOUR
    assert witness.at(START + 2 * HOUR + 1) == 1
    assert witness.put("a", "30 * * * *", now=START + 2 * HOUR + 1) == START + 2 * HOUR + 30 * MINUTE
    assert witness.status("a").schedule.data is None


def test_not_before(database: Database, schedules: Schedules) -> None:
    schedule, later = Schedule("fleet", "a", "0 * * * *"), START + 5 * HOUR
    assert database.write(lambda tx: schedules.put(tx, schedule, START, not_before=later)) == later


def test_paused_and_removed_ones_do_not_fire(witness: Witness) -> None:
    witness.put("a", "0 * * * *")
    witness.put("a", "0 * * * *", paused=True)
    witness.put("b", "0 * * * *")
    remove = lambda tx: witness.schedules.remove(tx, "fleet", "b")  # noqa: E731
    assert [witness.database.write(remove), witness.database.write(remove)] == [True, False]
    assert witness.at(START + DAY) == 0
    witness.put("a", "0 * * * *")
    assert witness.at(START + DAY) == 1


@pytest.mark.parametrize("catch_up", list(CatchUp))
def test_times_that_passed_while_it_was_paused_are_not_made_up_for(
    witness: Witness, catch_up: CatchUp
) -> None:
    witness.put("a", "0 * * * *", catch_up=catch_up)
    witness.put("a", "0 * * * *", catch_up=catch_up, paused=True)
    assert witness.put("a", "0 * * * *", now=START + DAY, catch_up=catch_up) == START + DAY + HOUR
    assert [witness.at(START + DAY), witness.at(START + DAY + HOUR)] == [0, 1]


def test_one_that_never_comes_again_rests(witness: Witness) -> None:
    witness.put("a", "0 0 0 2 1 * 2026")
    assert [witness.at(START + DAY), witness.at(START + 400 * DAY)] == [1, 0]
    assert witness.status("a").due is None


@pytest.mark.parametrize(
    ("cron", "zone"), [("0 * *", "UTC"), ("0 0 30 2 *", "UTC"), ("0 * * * *", "Mars/Base")]
)
def test_a_bad_schedule_is_refused_and_leaves_no_trace(witness: Witness, cron: str, zone: str) -> None:
    with pytest.raises(ScheduleError):
        witness.put("a", cron, zone=zone)
    assert witness.database.read(lambda tx: witness.schedules.show(tx, "fleet")) == []


def test_a_broken_row_is_put_aside_and_the_others_fire(
    witness: Witness, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b", "c"):
        witness.put(name, "0 * * * *")
    witness.database.atomic(Query.of("update schedule set cron = 'nonsense' where name = 'a'"))
    with caplog.at_level(logging.ERROR):
        assert witness.at(START + HOUR) == 2
    assert witness.fired() == [("b", HOUR), ("c", HOUR)]
    assert "cron 'nonsense' has 1 field" in witness.status("a").error
    assert "schedule fleet/a failed" in caplog.text
    assert witness.at(START + DAY) == 2, "it is not looked at again"
    assert witness.put("a", "0 * * * *", now=START + DAY) == START + DAY + HOUR
    assert witness.status("a").error == ""


def test_an_effect_that_fails_is_tried_again_for_the_same_time(witness: Witness) -> None:
    witness.put("a", "0 * * * *")
    witness.put("b", "0 * * * *")
    tried: list[str] = []

    def fire(tx: Transaction, firing: Firing) -> None:
        witness.fire(tx, firing)
        tried.append(firing.key)
        if firing.name == "a" and len(tried) < 4:
            raise RuntimeError("no room")

    assert witness.schedules.fire_due("fleet", fire, now=START + HOUR) == 1
    assert witness.fired() == [("b", HOUR)]
    assert (witness.status("a").failures, witness.status("a").error) == (1, "RuntimeError: no room")
    assert witness.schedules.next_look("fleet") == START + HOUR + 1_000
    assert witness.schedules.fire_due("fleet", fire, now=START + HOUR + 999) == 0
    assert witness.schedules.fire_due("fleet", fire, now=START + HOUR + 1_000) == 0
    assert witness.schedules.next_look("fleet") == START + HOUR + 3_000
    assert witness.schedules.fire_due("fleet", fire, now=START + HOUR + 3_000) == 1
    assert witness.fired() == [("a", HOUR), ("b", HOUR)]
    assert (witness.status("a").failures, witness.status("a").error) == (0, "")


def test_an_effect_whose_error_no_store_can_hold_stops_no_other(witness: Witness) -> None:
    witness.put("a", "0 * * * *")
    witness.put("b", "0 * * * *")

    def fire(tx: Transaction, firing: Firing) -> None:
        if firing.name == "a":
            raise RuntimeError("no\0room" * 1_000)
        witness.fire(tx, firing)

    assert witness.schedules.fire_due("fleet", fire, now=START + HOUR) == 1
    assert witness.fired() == [("b", HOUR)]
    assert witness.status("a").error.startswith("RuntimeError: no\ufffdroom")


def test_a_store_that_is_away_is_no_fault_of_the_schedule(witness: Witness) -> None:
    witness.put("a", "0 * * * *")

    def fire(tx: Transaction, firing: Firing) -> None:
        raise StoreUnavailable("gone")

    with pytest.raises(StoreUnavailable, match="gone"):
        witness.schedules.fire_due("fleet", fire, now=START + HOUR)
    assert witness.status("a").failures == 0
    assert witness.at(START + HOUR) == 1


def test_many_at_once_fire_each_time_once(witness: Witness) -> None:
    names = [f"s{number}" for number in range(20)]
    for name in names:
        witness.put(name, "0 * * * *", catch_up=CatchUp.ALL)
    counts: list[int] = []

    def sweep() -> None:
        while fired := witness.at(START + 3 * HOUR):
            counts.append(fired)

    sweepers = [threading.Thread(target=sweep) for _ in range(4)]
    for sweeper in sweepers:
        sweeper.start()
    for sweeper in sweepers:
        sweeper.join(60)
    while witness.at(START + 3 * HOUR):
        pass
    assert witness.fired() == sorted(
        ((name, hour * HOUR) for name in names for hour in (1, 2, 3)), key=lambda f: f[::-1]
    )


def test_the_clock_is_the_one_on_the_wall(witness: Witness) -> None:
    assert abs(witness.schedules.now() - wall_ms()) < HOUR
    witness.put("a", "* * * * * *", now=witness.schedules.now() - HOUR)
    assert witness.schedules.fire_due("fleet", witness.fire) == 1
