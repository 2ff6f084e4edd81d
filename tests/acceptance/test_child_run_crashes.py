"""A process that works on a run and its child is killed at each place where it could lose or double one of them."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from support.command_line import Outcome
from support.warm_processes import afl_warm

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

SOURCE = """
namespace shop {
    event facet Charge(item: String) => (total: Long)

    workflow Order(item: String) => (total: Long) andThen {
        paid = Charge(item = $.item)
        yield Order(total = paid.total)
    }
    workflow Cart() => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = "order-7")
        extra = Charge(item = "bag")
        yield Cart(total = order.total + extra.total)
    }
}
"""
MODULE = """
from afl import handler


@handler("shop.Charge")
def charge(item):
    return {"total": len(item)}
"""
POINTS = (
    "commit.before:1",
    "commit.after:1",
    "commit.before:2",
    "commit.after:2",
    "commit.before:3",
    "commit.after:3",
    "commit.before:4",
    "commit.after:4",
    "handler.before:1",
    "handler.after:2",
    "deliver.before:1",
    "deliver.before:2",
    "take.after:1",
    "finish.before:1",
    "finish.after:1",
)


def afl(folder: Path, *args: str, **variables: str) -> Outcome:
    settings = {"AFL_STORE": f"sqlite:///{folder}/shop.db"}
    return afl_warm(*args, "--agent", "shop.py", "--quiet", folder=folder, **settings, **variables)


@pytest.mark.parametrize("point", POINTS)
def test_the_next_process_goes_on_with_both(tmp_path: Path, point: str) -> None:
    (tmp_path / "shop.afl").write_text(SOURCE)
    (tmp_path / "shop.py").write_text(MODULE)
    killed = afl(tmp_path, "run", "shop.afl", "shop.Cart", AFL_CRASH_AT=point)
    assert killed.code == -9, killed.out
    with closing(SqliteStore(f"sqlite:///{tmp_path}/shop.db")) as store:
        parents = [run.workflow_id for run in store.get_runs() if run.workflow_name == "shop.Cart"]
        again = ["resume", *parents] if parents else ["run", "shop.afl", "shop.Cart"]
        done = afl(tmp_path, *again)
        assert (done.code, json.loads(done.out)) == (0, {"total": 6}), done.err
        runs = {run.workflow_name: run for run in store.get_runs()}
        assert len(store.get_runs()) == 2
        assert {run.state for run in runs.values()} == {RunnerState.COMPLETED}
        assert (runs["shop.Order"].workflow_id, runs["shop.Order"].parent_told) == ("order-7", 1)
        tasks = store.get_tasks_by_workflow(WorkflowId(runs["shop.Cart"].workflow_id))
        assert sorted((task.name, task.state, task.hold) for task in tasks) == [
            ("shop.Charge", TaskState.COMPLETED, ""),
            ("shop.Order", TaskState.COMPLETED, ""),
        ]
