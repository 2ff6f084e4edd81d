"""Child runs in one process: how deep they may go, and chains of runs that do not wait for one another."""

from __future__ import annotations

from afl.language import compile_source
from afl.runtime.entities import RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator
from afl.runtime.handlers.child_run import DEEPEST
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """
facet Done(n: Long)

workflow Down(n: Long) => (n: Long) andThen when {
    case $.n == 0 => {
        d = Done($.n)
        yield Down(n = d.n)
    }
    case _ => {
        d = Down(n = $.n - 1) with Run()
        yield Down(n = d.n)
    }
}

workflow Next(n: Long) => (n: Long) andThen when {
    case $.n == 0 => {
        d = Done($.n)
        yield Next(n = d.n)
    }
    case _ => {
        d = Next(n = $.n - 1) with Run(id = "next-" ++ $.n, onParentClose = "detach", wait = false)
        yield Next(n = $.n)
    }
}
"""


def program(name: str) -> Program:
    return Program({"program": compile_source(SOURCE).program, "workflow": name})


def test_runs_that_wait_for_one_another_go_as_deep_as_allowed(store: MemoryStore) -> None:
    with LocalRunner(Evaluator(store), Handlers.of({})) as runner:
        assert runner.run(program("Down"), {"n": DEEPEST}).outputs == {"n": 0}
        result = runner.run(program("Down"), {"n": DEEPEST + 1})
    assert isinstance(result.error, StepFailure)
    assert result.error.error_type == "RecursionLimit"
    last = max(store.get_runs(limit=1000), key=lambda run: run.workflow_id)
    assert last.error is not None
    assert last.error["message"] == f"{DEEPEST} child runs wait for one another already"


def test_a_chain_of_runs_that_do_not_wait_has_no_end(store: MemoryStore) -> None:
    evaluator = Evaluator(store)
    evaluator.submit(program("Next"), {"n": DEEPEST + 5})
    while due := store.get_due_runs():
        for run in due:
            evaluator.resume(run)
    runs = store.get_runs(limit=1000)
    assert len(runs) == DEEPEST + 6
    assert {run.state for run in runs} == {RunnerState.COMPLETED}
