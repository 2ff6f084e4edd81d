"""Starting a run again: the same program and inputs, unless others are given."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import RunExists, submit
from afl.operations.run.rerun import rerun, rerun_form
from afl.operations.run.run_summary import get_budget, run_summary
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    schema Size { width: Long, height: Long }
    event facet Load(n: Long) => (v: Long)
    workflow Sum(x: Long, size: t.Size, y: Long = 2, text: String = "t") => (r: Long) andThen {
        a = Load(n = $.x)
        yield Sum(r = a.v)
    }
}
"""
INPUTS: dict[str, Any] = {"x": 3, "size": {"width": 1, "height": 2}}


@pytest.fixture
def run(store: MemoryStore) -> str:
    program = choose_workflow(compile_source(SOURCE), "t.Sum")
    given: dict[str, Any] = {"run_name": "monday", "tags": {"team": "data"}, "task_list": "night"}
    return submit(store, program, INPUTS, **given, budget_usd=1.5).run


def get(store: MemoryStore, run: str) -> RunDefinition:
    found = store.get_run(WorkflowId(run))
    assert found is not None
    return found


def test_a_rerun_is_a_new_run_of_the_same_program(store: MemoryStore, run: str) -> None:
    again, source = get(store, rerun(store, run[:12]).run), get(store, run)
    assert again.workflow_id != run
    assert (again.inputs, again.program_hash) == (source.inputs, source.program_hash)
    assert (again.name, again.tags, again.task_list) == ("monday", {"team": "data"}, "night")
    assert (again.state, again.origin) == (RunnerState.CREATED, run)
    budget = get_budget(store, again.workflow_id)
    assert budget is not None
    assert (budget.usd, budget.tokens) == (1.5, None)


def test_inputs_that_are_given_replace_its_own(store: MemoryStore, run: str) -> None:
    again = get(store, rerun(store, run, {"x": 4}, texts=["text=5", 'size={"width": 7, "height": 8}']).run)
    assert again.inputs == {"x": 4, "y": 2, "text": "5", "size": {"width": 7, "height": 8}}


@pytest.mark.parametrize(
    ("inputs", "texts", "told"),
    [
        ({"x": "four"}, [], "input 'x': expected Long"),
        ({"z": 1}, [], "unknown input 'z'"),
        ({}, ["x"], "an input is written name=value"),
        ({}, ["size={}"], "input 'size'"),
    ],
)
def test_inputs_that_do_not_fit(
    store: MemoryStore, run: str, inputs: dict[str, Any], texts: list[str], told: str
) -> None:
    with pytest.raises(InputError, match=told):
        rerun(store, run, inputs, texts=texts)
    assert len(store.get_runs()) == 1


def test_lineage_is_shown_both_ways(store: MemoryStore, run: str) -> None:
    again = rerun(store, run).run
    (copy,) = run_summary(store, run).lineage.copies
    assert (copy.run, copy.step, copy.state) == (again, "", RunnerState.CREATED)
    origin = run_summary(store, again).lineage.origin
    assert origin is not None
    assert (origin.run, origin.step, origin.state) == (run, "", RunnerState.CREATED)


def test_the_same_id_again_is_the_same_run(store: MemoryStore, run: str) -> None:
    assert rerun(store, run, id="mine").run == rerun(store, run, id="mine").run == "mine"
    assert rerun(store, run, key="click", by="ann").run == rerun(store, run, key="click", by="ann").run
    with pytest.raises(RunExists):
        rerun(store, run, {"x": 4}, id="mine")


def test_the_form_has_the_inputs_of_the_run(store: MemoryStore, run: str) -> None:
    again = rerun(store, run, {"y": 9}).run
    form = rerun_form(store, again)
    assert {field.name: field.default for field in form.every_field} == {
        "x": 3,
        "size.width": 1,
        "size.height": 2,
        "y": 9,
        "text": "t",
    }


def test_the_id_of_a_rerun_is_that_of_no_other_run(store: MemoryStore, run: str) -> None:
    again = rerun(store, run, id="again").run
    assert rerun(store, run, id="again").run == again
    for taken, origin in ((run, run), (run, again)):
        with pytest.raises(RunExists, match=f"there is a run {taken} already; a rerun needs a new id"):
            rerun(store, origin, id=taken)
