"""kill -9 of whoever delivers a signal, and of whoever works on its run: it is received once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import Outcome
from support.warm_processes import afl_warm

from afl.runtime.evaluator import Evaluator
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

SOURCE = """
event facet Paid(order: String) => (amount: Double) with Signal("paid")
workflow Order(order: String) => (amount: Double) andThen {
    a = Paid(order = $.order)
    b = Paid(order = $.order)
    yield Order(amount = a.amount * 10 + b.amount)
}
"""


def afl(folder: Path, *args: str, **variables: str) -> Outcome:
    return afl_warm(*args, folder=folder, AFL_STORE=f"sqlite:///{folder}/shop.db", **variables)


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "shop.afl").write_text(SOURCE)
    done = afl(tmp_path, "submit", "shop.afl", "--input", "order=7", "--json")
    assert done.code == 0, done.err
    return str(json.loads(done.out)["run"])


def begin(folder: Path, run: str) -> None:
    store = SqliteStore(f"sqlite:///{folder}/shop.db")
    Evaluator(store).resume(WorkflowId(run))
    store.close()


def deliver(folder: Path, run: str, amount: int, **variables: str) -> Outcome:
    given = ("--input", f"amount={amount}", "--id", str(amount))
    return afl(folder, "signal", run, "paid", *given, "--json", **variables)


def check_end(folder: Path, run: str) -> None:
    done = afl(folder, "resume", run, "--quiet")
    assert (done.code, json.loads(done.out or "{}")) == (0, {"amount": 12.0}), done.err
    store = SqliteStore(f"sqlite:///{folder}/shop.db")
    received = [store.get_signal(WorkflowId(run), id) for id in ("1", "2")]
    tasks = [task.uuid for task in store.get_tasks_by_workflow(WorkflowId(run))]
    store.close()
    assert [each.task_id for each in received if each is not None] == tasks


@pytest.mark.parametrize("point", ["finish.before", "finish.after"])
def test_a_sender_is_killed_and_sends_again(tmp_path: Path, run: str, point: str) -> None:
    begin(tmp_path, run)
    killed = deliver(tmp_path, run, 1, AFL_CRASH_AT=point)
    assert killed.code == -9, killed.err
    again = json.loads(deliver(tmp_path, run, 1).out)
    assert (again["delivered"], again["step"]) == (False, "a")
    assert json.loads(deliver(tmp_path, run, 2).out)["step"] == "b"
    check_end(tmp_path, run)


@pytest.mark.parametrize(
    "point",
    ["take.after", "commit.before", "commit.after", "finish.before", "finish.after", "finish.after:2"],
)
def test_whoever_works_on_the_run_is_killed(tmp_path: Path, run: str, point: str) -> None:
    for amount in (1, 2):
        assert json.loads(deliver(tmp_path, run, amount).out)["delivered"]
    killed = afl(tmp_path, "resume", run, "--quiet", AFL_CRASH_AT=point)
    assert killed.code == -9, killed.err
    check_end(tmp_path, run)
