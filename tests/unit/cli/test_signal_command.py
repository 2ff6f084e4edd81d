"""`afl signal`, and what `afl run` and `afl show` say of a run that waits for a signal."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, Outcome
from support.eventually import eventually

from afl.operations.run.signaling import send_signal
from afl.runtime.entities import SignalDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import WorkflowId

SOURCE = """namespace shop {
    event facet Paid(order: String) => (amount: Double, by: String = "cash") with Signal("paid")
    workflow Order(order: String) => (amount: Double, by: String) andThen {
        p = Paid(order = $.order)
        yield Order(amount = p.amount, by = p.by)
    }
}
"""


@pytest.fixture
def run(afl: Afl, tmp_path: Path) -> str:
    """A run that has not begun."""
    (tmp_path / "shop.afl").write_text(SOURCE)
    return str(result(afl("submit", "shop.afl", "-i", "order=7", "--json"))["run"])


def result(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_signal_is_delivered_and_repeated(afl: Afl, run: str) -> None:
    first = result(afl("signal", run[:12], "paid", "--value", '{"amount": 2}', "--id", "x", "--json"))
    assert first == {"run": run, "name": "paid", "id": "x", "delivered": True, "step": ""}
    again = afl("signal", run, "paid", "--value", '{"amount": 3}', "--id", "x")
    assert again.err == (
        f"Signal paid was delivered to run {run} before, by the id x; nothing was changed; "
        "kept until a step waits for it\n"
    )
    assert result(afl("resume", run, "-q")) == {"amount": 2, "by": "cash"}


def test_values_by_name(afl: Afl, run: str) -> None:
    done = afl("signal", run, "paid", "-i", "amount=2.5", "-i", "by=7")
    assert done.err == f"Signal paid was delivered to run {run}; kept until a step waits for it\n"
    assert result(afl("resume", run, "-q")) == {"amount": 2.5, "by": "7"}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["payd"], 1, "shop.Order waits for no signal 'payd'; it waits for: paid"),
        (["paid"], 1, "the result lacks amount (it returns (amount: Double, by: String))"),
        (["paid", "--value", '{"amount": "x"}'], 1, "return field 'amount': expected Double"),
        (["paid", "-i", "amount=much"], 1, "amount: write a number"),
        (["paid", "-i", "amout=1"], 1, "amout: there is no such field"),
        (["paid", "--value", "{"], 2, "--value is not JSON"),
        (["paid", "--value", "[1]"], 2, "--value is an object"),
        (["paid", "--value", "{}", "-i", "amount=1"], 2, "give --value or --input, not both"),
        (["paid", "-i", "amount"], 2, "name=value"),
        (["paid", "--value", '{"amount": 1}', "--id", "x" * 600], 1, "the id of the signal is"),
        (["paid", "--value", '{"amount": 1}', "--id", ""], 2, "the id is empty"),
    ],
)
def test_what_is_wrong_is_said(afl: Afl, run: str, given: list[str], code: int, said: str) -> None:
    done = afl("signal", run, *given)
    assert done.code == code
    assert said in " ".join(done.err.replace("│", " ").split())


def test_a_run_that_is_not_there_or_over(afl: Afl, run: str) -> None:
    assert "there is no run nope" in afl("signal", "nope", "paid").err
    afl("cancel", run)
    done = afl("signal", run, "paid", "--value", '{"amount": 1}')
    assert (done.code, "canceled; it receives no signals" in done.err) == (1, True)


def test_run_waits_for_the_signal_and_says_so(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "shop.afl").write_text(SOURCE)
    store = SqliteStore(f"sqlite:///{tmp_path}/shop.db")
    delivered: list[str] = []

    def deliver() -> None:
        delivered.extend(eventually(lambda: [run.workflow_id for run in store.get_runs() if run.waiting]))
        send_signal(store, delivered[0], "paid", {"amount": 4})

    sender = threading.Thread(target=deliver)
    sender.start()
    done = afl("run", "shop.afl", "-i", "order=7", "--store", f"sqlite:///{tmp_path}/shop.db")
    sender.join()
    store.close()
    assert result(done) == {"amount": 4, "by": "cash"}
    assert done.err.startswith(f"run {delivered[0]} of shop.Order\n")


def test_run_receives_what_a_dead_sender_stored(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "shop.afl").write_text(SOURCE)
    store = SqliteStore(f"sqlite:///{tmp_path}/shop.db")

    def deliver() -> None:
        (run,) = eventually(lambda: [run.workflow_id for run in store.get_runs() if run.waiting])
        store.add_signal(SignalDefinition(run, "x", "paid", {"amount": 4}))

    sender = threading.Thread(target=deliver)
    sender.start()
    done = afl("run", "shop.afl", "-i", "order=7", "-q", "--store", f"sqlite:///{tmp_path}/shop.db")
    sender.join()
    store.close()
    assert result(done) == {"amount": 4, "by": "cash"}


def test_run_looks_after_the_time_of_a_signal(afl: Afl, tmp_path: Path) -> None:
    hasty = SOURCE.replace("Paid(order = $.order)", "Paid(order = $.order) with Timeout(ms = 1)")
    (tmp_path / "shop.afl").write_text(hasty)
    done = afl("run", "shop.afl", "-i", "order=7", "-q")
    assert (done.code, "signal paid did not come within 1 ms" in done.err) == (1, True)


def test_what_is_waited_for_is_said(afl: Afl, run: str, tmp_path: Path) -> None:
    store = SqliteStore(f"sqlite:///{tmp_path}/.afl/afl.db")
    Evaluator(store).resume(WorkflowId(run))
    store.close()
    assert "p = shop.Paid  waiting" in afl("show", run).out
    assert "signal: paid" in afl("show", run).out
    how = f"afl signal {run} paid --input amount=DOUBLE --input by=STRING"
    assert f"-> Deliver it with: {how}  [task-signal]" in afl("why", run).out
    graph = afl("show", run, "--json").out
    assert "signal:paid" in graph
