"""Runs as operations: start, resume, find, and the one call for programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import afl
from afl.kernel.errors import InputError, StoreUnavailable
from afl.kernel.settings import Settings
from afl.language import CompileError, compile_source
from afl.operations.program.sources import SourceError, choose_workflow
from afl.operations.run import runs
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Twice(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Double(n = a.m)
        yield Twice(m = b.m)
    }
}
"""


def double(n: int) -> dict[str, Any]:
    if n == 13:
        raise ValueError("no thirteen")
    return {"m": n * 2}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def program() -> Program:
    return choose_workflow(compile_source(SOURCE, name="twice.afl"))


HANDLERS = Handlers.of({"t.Double": double})
NONE = Handlers()


def test_a_completed_run(store: MemoryStore, program: Program) -> None:
    report = runs.start(store, program, {"n": 3}, handlers=HANDLERS)
    assert (report.status, report.workflow, report.outputs) == ("COMPLETED", "t.Twice", {"m": 12})


def test_a_failed_run_has_its_cause(store: MemoryStore, program: Program) -> None:
    report = runs.start(store, program, {"n": 13}, handlers=HANDLERS)
    assert report.status == "ERROR"
    assert report.error is not None
    assert (report.error.message, report.error.step, report.error.line) == ("no thirteen", "a", 4)
    assert report.error.source == "twice.afl"


def test_a_paused_run_is_resumed_by_a_prefix(store: MemoryStore, program: Program) -> None:
    report = runs.start(store, program, {"n": 3}, handlers=NONE)
    assert report.status == "PAUSED"
    assert report.waiting_for == [runs.Waiting("t.Double", 1)]
    again = runs.resume(store, report.run[:20], handlers=HANDLERS)
    assert (again.run, again.status, again.outputs) == (report.run, "COMPLETED", {"m": 12})


def test_inputs_that_do_not_fit_store_nothing(store: MemoryStore, program: Program) -> None:
    with pytest.raises(InputError, match="input 'n' is missing"):
        runs.start(store, program, {}, handlers=HANDLERS)
    assert store.get_runs() == []


def test_find(store: MemoryStore, program: Program) -> None:
    with pytest.raises(InputError, match="there is no run in this store yet"):
        runs.find(store)
    first = runs.start(store, program, {"n": 3}, handlers=HANDLERS).run
    second = runs.start(store, program, {"n": 3}, handlers=HANDLERS).run
    assert runs.find(store).workflow_id in (first, second)
    assert runs.find(store, first).workflow_id == first
    assert runs.find(store, second[:-1]).workflow_id == second
    with pytest.raises(InputError, match=f"2 runs start with {first[:4]}"):
        runs.find(store, first[:4])
    for unknown in ("zzz", "", first[:1]):
        with pytest.raises(runs.UnknownRun) as caught:
            runs.find(store, unknown)
        assert {each.workflow_id for each in caught.value.latest} == {first, second}


def test_a_store_that_is_only_read_is_not_made(tmp_path: Path) -> None:
    settings = Settings(store=f"sqlite:///{tmp_path}/none.db")
    with (
        pytest.raises(StoreUnavailable, match="there is no store"),
        runs.opened(settings, create=False),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_run_in_one_call(store: MemoryStore, tmp_path: Path) -> None:
    (tmp_path / "twice.afl").write_text(SOURCE)
    functions = {"t.Double": double}
    assert afl.run(SOURCE, {"n": 3}, handlers=functions, store=store) == {"m": 12}
    assert afl.run(tmp_path / "twice.afl", {"n": 4}, handlers=functions, store="memory://") == {"m": 16}
    marked = SimpleNamespace(d=afl.handler("t.Double")(double))
    assert afl.run(str(tmp_path / "twice.afl"), {"n": 5}, handlers=marked, store="memory://") == {"m": 20}


def test_run_keeps_its_runs_where_the_command_line_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_STORE", f"sqlite:///{tmp_path}/own.db")
    afl.run(SOURCE, {"n": 3}, handlers={"t.Double": double})
    with runs.opened(Settings(store=f"sqlite:///{tmp_path}/own.db"), create=False) as store:
        assert runs.find(store).outputs == {"m": 12}


def test_run_raises_what_went_wrong(store: MemoryStore) -> None:
    with pytest.raises(afl.RunFailed, match=r"no thirteen") as failed:
        afl.run(SOURCE, {"n": 13}, handlers={"t.Double": double}, store=store)
    assert failed.value.report.error is not None
    with pytest.raises(afl.RunPaused, match=r"waits for t.Double"):
        afl.run(SOURCE, {"n": 1}, store=store)
    with pytest.raises(CompileError, match=r"<string>:1:"):
        afl.run("workflow {", store=store)
    with pytest.raises(InputError, match="input 'n' is missing"):
        afl.run(SOURCE, store=store)
    with pytest.raises(InputError, match="unknown workflow 'Thrice'"):
        afl.run(SOURCE, {"n": 1}, workflow="Thrice", store=store)
    with pytest.raises(SourceError, match=r"File not found: nope.afl"):
        afl.run("nope.afl", store=store)
