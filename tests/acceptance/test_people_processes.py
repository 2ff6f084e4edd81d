"""People and processes: an answer that was given is not lost, whoever is killed; and a terminal asks by itself."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.terminal import Terminal
from support.warm_processes import Warm, WarmProcesses, afl_warm

from afl.operations.people import approvals
from afl.operations.run.run_list import list_runs
from afl.operations.run.waiting import wait
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId

SOURCE = """namespace pay {
    event facet Check(amount: Double) => (amount: Double, note: String)
        with Human("finance", title = "Check the bill")
    event facet Sign(note: String) => (ok: Boolean) with Human("boss")
    workflow Pay(amount: Double) => (amount: Double, note: String, ok: Boolean) andThen {
        c = Check($.amount)
        s = Sign(c.note)
        yield Pay(amount = c.amount, note = c.note, ok = s.ok)
    }
}
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'afl.db'}"
    found: str = request.getfixturevalue("postgres_database")
    return found


@pytest.fixture
def store(url: str) -> Iterator[PersistenceAPI]:
    opened = open_store(url)
    yield opened
    opened.close()


def test_no_kill_loses_an_answer(
    tmp_path: Path, url: str, store: PersistenceAPI, warm: WarmProcesses
) -> None:
    (tmp_path / "pay.afl").write_text(SOURCE)

    def crash(point: str, *words: str) -> None:
        done = afl_warm(*words, folder=tmp_path, AFL_STORE=url, AFL_CRASH_AT=point)
        assert done.code == -signal.SIGKILL, done.err

    def afl(*words: str) -> Warm:
        return warm.start(*words, folder=tmp_path, AFL_STORE=url)

    assert afl("submit", "pay.afl", "-i", "amount=9.5").wait() == 0
    first = afl("runner")
    (asked,) = eventually(lambda: approvals.list_approvals(store), first.said)
    first.kill()

    approve = ("approvals", "approve", asked.id, "--set", "note=fine")
    crash("finish.before", *approve)
    assert [each.id for each in approvals.list_approvals(store)] == [asked.id]
    crash("finish.after", *approve)
    assert approvals.list_approvals(store) == []
    assert approvals.show_approval(store, asked.id).approval.state == "answered"
    crash("take.after", "runner")
    crash("commit.before", "runner")

    last = afl("runner")
    (signing,) = eventually(lambda: approvals.list_approvals(store), last.said)
    assert (signing.group, signing.step) == ("boss", "s")
    assert afl("approvals", "approve", signing.id).wait() == 0
    (run,) = list_runs(store).runs
    assert wait(store, run.run).outputs == {"amount": 9.5, "note": "fine", "ok": True}
    assert len(store.get_tasks_by_workflow(WorkflowId(run.run))) == 2
    last.kill()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "pay.afl").write_text(SOURCE)
    opened = Terminal(tmp_path, "run", "pay.afl", "-i", "amount=9.5", "-q")
    try:
        yield opened
    finally:
        opened.close()


def test_a_run_on_a_terminal_asks_by_itself(terminal: Terminal) -> None:
    terminal.until("(l)ater [l]: ")
    assert "Check the bill  open" in terminal.shown()
    terminal.type("a\n")
    terminal.until("amount: Double [9.5]: ")
    terminal.type("much\n")
    terminal.until("note: String: ")
    terminal.type("\n")
    terminal.until("amount: write a number; got 'much'")
    terminal.until("note: is required: write a text")
    terminal.until("amount: Double [much]: ")
    terminal.type("7\n")
    eventually(lambda: terminal.shown().count("note: String: ") == 2, terminal.shown)
    terminal.type("fine\n")
    terminal.until("Sign  open")
    eventually(lambda: terminal.shown().count("(l)ater [l]: ") == 2, terminal.shown)
    terminal.type("r\n")
    terminal.until("Why: ")
    terminal.type("not today\n")
    assert terminal.end() == 0, terminal.shown()
    shown = terminal.shown()
    outputs = json.loads(shown[shown.rindex("{") : shown.rindex("}") + 1])
    assert outputs == {"amount": 7, "note": "fine", "ok": False}


def test_what_is_left_for_later_stays_open(terminal: Terminal, tmp_path: Path) -> None:
    terminal.until("(l)ater [l]: ")
    terminal.type("\n")
    assert terminal.end() == 0, terminal.shown()
    assert "Answer it: afl approvals" in terminal.shown()
    store = open_store(f"sqlite:///{tmp_path}/.afl/afl.db")
    assert [each.group for each in approvals.list_approvals(store)] == ["finance"]
    store.close()


def test_ctrl_c_at_the_question_leaves_it_open(terminal: Terminal) -> None:
    terminal.until("(l)ater [l]: ")
    terminal.interrupt()
    terminal.end()
    assert "Answer it: afl approvals" in terminal.shown()
