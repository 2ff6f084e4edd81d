"""What retention removes and what it leaves, on every database the principal runs on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.fleet_stores import LEASE_MS, START_MS, Keeper, log_record

from afl.fleet.messages import LogPage, RunRecord, Status
from afl.fleet.principal import logs, retention, views
from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.registry import Registry
from afl.fleet.principal.retention import BLOCKS, RUNS, Retention
from afl.fleet.requests import GetLogs
from afl.kernel.database import Query

S = Status
DAY_MS = 86_400_000
TABLES = ("fleet_runs", "fleet_tasks", "workflow_run_status", "task_run_status", "fleet_log_blocks")


def end_one(keeper: Keeper, run_id: str, workflow_id: str = "w", *lines: str) -> None:
    """A run from its beginning to its end, by the wall's clock of the moment it is shipped with."""
    keeper.enqueue(run_id, workflow_id)
    taken = keeper.claim("i")
    assert taken is not None and taken["run_id"] == run_id
    keeper.say("i", run_id, 1, S.RUNNING)
    keeper.say_task("i", run_id, 1, S.COMPLETED)
    for line in lines:
        keeper.ship("i", log_record(keeper.next("i"), line, run_id=run_id))
    keeper.say("i", run_id, 1, S.COMPLETED)


def counts(keeper: Keeper) -> dict[str, int]:
    def read(table: str) -> int:
        row = keeper.store.read(lambda tx: tx.one(Query.of(f"select count(*) as found from {table}")))
        assert row is not None
        return int(row["found"])

    return {table: read(table) for table in TABLES}


def lines_of(keeper: Keeper, run_id: str = "") -> list[str]:
    page: LogPage = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id=run_id, limit=10_000)))
    return [line.payload for line in page.lines]


def forget(keeper: Keeper, before: int) -> int:
    """Everything; how many transitions that took."""
    for number in range(1, 1000):
        if not keeper.change(lambda change: retention.forget(change, before))[1]:
            return number
    raise AssertionError("there is no end to it")


def test_what_ended_before_goes_with_all_that_belongs_to_it(keeper: Keeper) -> None:
    end_one(keeper, "old", "w", "one", "two")
    end_one(keeper, "newer", "w", "three")
    older = Query.of("update fleet_runs set ended_at = :at where run_id = :run_id")
    keeper.change(lambda change: change.tx.run(older, run_id="old", at=START_MS - 1))
    assert keeper.change(lambda change: retention.forget(change, START_MS)) == (1, False)
    assert keeper.store.read(lambda tx: views.run_detail(tx, "old")) is None
    assert counts(keeper) == dict.fromkeys(TABLES, 1) | {"workflow_run_status": 3}
    assert lines_of(keeper) == ["three"]
    assert keeper.run("newer").status is S.COMPLETED


def test_what_has_not_ended_stays_however_old(keeper: Keeper) -> None:
    for name in ("running", "waiting"):
        keeper.enqueue(name)
    keeper.claim("i")
    keeper.say("i", "running", 1, S.RUNNING)
    before = counts(keeper)
    assert keeper.change(lambda change: retention.forget(change, START_MS * 2)) == (0, False)
    assert counts(keeper) == before


def test_the_last_status_of_a_workflow_stays(keeper: Keeper) -> None:
    for name in ("a", "b"):
        end_one(keeper, name)
    end_one(keeper, "c", "other")
    forget(keeper, START_MS * 2)
    assert counts(keeper) == dict.fromkeys(TABLES, 0) | {"workflow_run_status": 2}
    recent = keeper.store.read(views.recent_statuses)
    assert sorted((each.workflow_id, each.workflow_instance_id) for each in recent) == [
        ("other", "c"),
        ("w", "b"),
    ]


def test_it_is_removed_a_little_at_a_time(keeper: Keeper) -> None:
    for number in range(RUNS + 1):
        end_one(keeper, f"r{number}")
    end_one(keeper, "long", "w", *(f"line {number}" for number in range(BLOCKS + 10)))
    assert keeper.change(lambda change: retention.forget(change, START_MS * 2)) == (RUNS, True)
    assert keeper.change(lambda change: retention.forget(change, START_MS * 2)) == (1, True)
    assert len(lines_of(keeper, "long")) == 10
    assert keeper.run("long").status is S.COMPLETED  # until the last of its lines is gone
    assert keeper.change(lambda change: retention.forget(change, START_MS * 2)) == (1, False)
    assert counts(keeper) == dict.fromkeys(TABLES, 0) | {"workflow_run_status": 1}


def test_lines_of_earlier_instances_of_a_run_go_with_it(keeper: Keeper) -> None:
    """An agent was lost, and the run was queued again: the lines of both attempts carry the run's name."""
    keeper.enqueue("a", requeues=1)
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.ship("i", log_record(keeper.next("i"), "first attempt", run_id="a"))
    keeper.now += LEASE_MS + 1
    keeper.expire()
    taken = keeper.claim("j")
    assert taken is not None
    keeper.say("j", "a", taken["epoch"], S.RUNNING)
    keeper.ship("j", log_record(keeper.next("j"), "second attempt", run_id="a"))
    keeper.say("j", "a", taken["epoch"], S.COMPLETED)
    forget(keeper, START_MS * 2)
    assert lines_of(keeper) == []


def test_word_of_a_run_that_is_gone_is_taken_and_changes_nothing(keeper: Keeper) -> None:
    end_one(keeper, "a")
    forget(keeper, START_MS * 2)
    word = RunRecord(seq=keeper.next("i"), run_id="a", epoch=1, status=S.FAILED, at=START_MS)
    assert keeper.ship("i", word) == word.seq
    assert keeper.store.read(lambda tx: views.run_detail(tx, "a")) is None


@pytest.mark.parametrize(("days", "left"), [(2, []), (3, ["a"])])
def test_the_principal_keeps_so_many_days(keeper: Keeper, tmp_path: Path, days: int, left: list[str]) -> None:
    end_one(keeper, "a")
    keeper.now += 2 * DAY_MS + 1_000
    context = PrincipalContext(keeper.store, Catalog(tmp_path), Registry(keeper.store.wall))
    assert asyncio.run(Retention(context, days).look()) == 1 - len(left)
    found = keeper.store.read(lambda tx: tx.all(Query.of("select run_id from fleet_runs")))
    assert [row["run_id"] for row in found] == left
