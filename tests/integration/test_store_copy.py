"""A store is copied from SQLite to PostgreSQL, and what was open goes on there."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import psycopg
import pytest
from support.command_line import Afl, afl

import afl as agentflow
from afl.models import ScriptedModel
from afl.runtime.entities import TaskState
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId
from afl.turns import open_agents

__all__ = ["afl"]  # a fixture
SOURCE = """namespace moving {
    event facet Double(n: Long) => (twice: Long)
    event facet Approve(text: String) => (ok: Boolean) with Human("boss")

    workflow Doubled(n: Long) => (twice: Long) andThen {
        asked = Double(n = $.n)
        yield Doubled(twice = asked.twice)
    }

    workflow Signed(text: String) => (ok: Boolean) andThen {
        first = Double(n = 4)
        said = Approve(text = $.text ++ " ☕ " ++ first.twice)
        yield Signed(ok = said.ok)
    }
}
"""
WORKER = """import sys
from afl.runtime.sqlite_store import SqliteStore

store = SqliteStore(sys.argv[1])
print(store.owner_id, flush=True)
sys.stdin.readline()
store.close()
"""
DIES = """import os, sys
import afl

with afl.connect(sys.argv[1]) as flow:
    with flow.worker({"moving.Double": lambda n: os._exit(9)}):
        flow.start(sys.argv[2], "moving.Doubled", n=4, id="interrupted").result()
"""
HANDLERS = {"moving.Double": lambda n: {"twice": 2 * n}}


async def fill(url: str) -> dict[str, str]:
    """Runs that are done, that wait for a worker, for a person and for a time; an agent with a turn."""
    async with agentflow.connect(url) as flow:
        async with flow.worker(HANDLERS):
            done = await flow.start(SOURCE, "moving.Doubled", n=21, tags={"team": "data"})
            assert await done.result(timeout=30) == {"twice": 42}
            signed = await flow.start(SOURCE, "moving.Signed", text="the lease", id="lease-1")
            async for event in signed.events():
                if event.kind == "step-waiting":
                    break
        open_ = await flow.start(SOURCE, "moving.Doubled", n=4)
        await flow.schedule(SOURCE, "moving.Doubled", cron="0 3 * * *", name="nightly", n=1)
        async with open_agents(url, model=ScriptedModel(["Good morning.", "Yes."])) as agents:
            await agents.define("clerk")
            asked = await agents.session("desk", "clerk").send("Hello?")
            assert (await agents.wait(asked)).text == "Good morning."
            assert (await agents.ask("clerk", "Open?")).text == "Yes."
        turn = await flow.turns.send("clerk", "Still?", after=asked.agent_turn_id)
        return {"done": done.id, "signed": signed.id, "open": open_.id, "turn": turn.agent_turn_id}


async def go_on(url: str, made: dict[str, str]) -> None:
    async with agentflow.connect(url) as flow:
        assert await (await flow.get(made["done"])).result() == {"twice": 42}
        assert [each.run for each in await flow.list(tags={"team": "data"})] == [made["done"]]
        assert [each.run for each in await flow.list(text="lease")] == [made["signed"]]
        assert (await flow.start(SOURCE, "moving.Signed", text="the lease", id="lease-1")).id == made[
            "signed"
        ]
        assert made["turn"] in [each.turn for each in await flow.turns.list(agent="clerk")]
        async with open_agents(url, model=ScriptedModel(["Still open."])):
            assert (await flow.turns.result(made["turn"], timeout=30)).text == "Still open."
        async with flow.worker(HANDLERS):
            assert await (await flow.get(made["open"])).result(timeout=30) == {"twice": 8}
            (approval,) = await flow.approvals()
            await flow.approve(approval.id, {"ok": True})
            assert await (await flow.get(made["signed"])).result(timeout=30) == {"ok": True}
            fresh = await flow.start(SOURCE, "moving.Doubled", n=1)
            assert await fresh.result(timeout=30) == {"twice": 2}


def rows(url: str) -> dict[str, list[Any]]:
    """Of the tables with plain names."""
    with psycopg.connect(url) as connection:
        names = connection.execute(
            "select table_name from information_schema.tables "
            "where table_schema = 'public' and table_type = 'BASE TABLE'"
        ).fetchall()
        return {name: connection.execute(f'select * from "{name}"').fetchall() for (name,) in names}


def test_everything_is_there_and_goes_on(afl: Afl, tmp_path: Path, postgres_database: str) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    made = asyncio.run(fill(source))
    done = afl("copy", source, postgres_database, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["runs"] == 3
    copied = rows(postgres_database)
    with closing(sqlite3.connect(tmp_path / "here.db")) as file:
        for table, count in told["tables"].items():
            assert file.execute(f'select count(*) from "{table}"').fetchone() == (count,)
            if table in copied:
                there = [tuple(row) for row in file.execute(f'select * from "{table}"')]
                assert sorted(map(repr, copied[table])) == sorted(map(repr, there)), table
        left = {
            name
            for (name,) in file.execute("select name from sqlite_master where type = 'table'").fetchall()
            if name not in told["tables"] and file.execute(f'select 1 from "{name}" limit 1').fetchone()
        }
    not_copied = {"afl_schema", "afl_servers", "afl_clock", "sqlite_sequence"}
    assert {name for name in left if not name.startswith("afl_search")} <= not_copied
    asyncio.run(go_on(postgres_database, made))


def test_a_store_with_rows_is_not_copied_into(afl: Afl, tmp_path: Path, postgres_database: str) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    asyncio.run(fill(source))
    assert afl("copy", source, postgres_database).code == 0
    before = rows(postgres_database)
    again = afl("copy", source, postgres_database)
    assert again.code == 1
    assert "is not empty: there are rows in afl_programs" in again.err
    assert rows(postgres_database) == before


def test_a_store_that_somebody_uses_is_not_copied(afl: Afl, tmp_path: Path, postgres_database: str) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    asyncio.run(fill(source))
    with Popen([sys.executable, "-c", WORKER, source], stdin=PIPE, stdout=PIPE, text=True) as worker:
        assert worker.stdout is not None and worker.stdout.readline()
        done = afl("copy", source, postgres_database)
        worker.communicate("\n")
    assert done.code == 1
    assert f"is in use by process {worker.pid}" in done.err
    assert afl("copy", source, postgres_database).code == 0


def test_the_work_of_a_process_that_died_is_free_in_the_new_store(
    afl: Afl, tmp_path: Path, postgres_database: str
) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    with Popen([sys.executable, "-c", DIES, source, SOURCE]) as worker:
        assert worker.wait() == 9
    assert afl("copy", source, postgres_database).code == 0
    with closing(open_store(postgres_database)) as store:
        (task,) = store.get_tasks_by_workflow(WorkflowId("interrupted"))
        assert (task.state, task.owner, task.deaths) == (TaskState.PENDING, "", 1)


def test_tables_of_others_are_left_alone(afl: Afl, tmp_path: Path, postgres_database: str) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    asyncio.run(fill(source))
    with closing(sqlite3.connect(tmp_path / "here.db")) as file, file:
        file.execute("create table orders (id integer)")
        file.execute("insert into orders values (1)")
    with psycopg.connect(postgres_database) as connection:
        connection.execute("create table orders (id integer)")
    assert afl("copy", source, postgres_database).code == 0
    assert rows(postgres_database)["orders"] == []


def test_a_row_that_does_not_fit_leaves_nothing_behind(
    afl: Afl, tmp_path: Path, postgres_database: str
) -> None:
    source = f"sqlite:///{tmp_path}/here.db"
    asyncio.run(fill(source))
    with closing(sqlite3.connect(tmp_path / "here.db")) as file, file:
        file.execute("update afl_runs set name = 'a' || char(0) || 'b'")
        assert file.total_changes
    done = afl("copy", source, postgres_database)
    assert done.code == 1
    assert "nothing was copied" in done.err
    assert [table for table, found in rows(postgres_database).items() if found] == ["afl_schema"]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sqlite:///here.db", "sqlite:///there.db"),
        ("postgresql://a/b", "postgresql://c/d"),
        ("memory://", "mongodb://c"),
    ],
)
def test_other_directions_are_refused(afl: Afl, source: str, target: str) -> None:
    done = afl("copy", source, target)
    assert done.code == 1
    assert "a store is copied from sqlite:/// to postgresql://" in done.err


def test_a_file_that_is_not_there_is_told(afl: Afl, postgres_database: str) -> None:
    done = afl("copy", "sqlite:///nowhere.db", postgres_database)
    assert done.code == 1
    assert "there is no store" in done.err
