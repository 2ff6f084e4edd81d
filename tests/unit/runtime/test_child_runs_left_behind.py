"""A child run that its parent no longer waits for goes on, and the parent's own work does not wait for it."""

from __future__ import annotations

import pytest

from afl.language import compile_source
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.program import Program
from afl.runtime.recovery.sweep import reclaim
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Never() => (n: Long) with Signal("never")
    event facet Echo(n: Long) => (n: Long)
    workflow Hangs() => (n: Long) andThen { a = Never() yield Hangs(n = a.n) }
    workflow Hurries(closing: String) => (all: [Long]) andThen foreach n in [1, 2] {
        a = Hangs() with Run(id = "hangs-" ++ n, onParentClose = $.closing) with Timeout(ms = 1) catch {
            b = Echo(n = n)
            yield Hurries(all = [b.n])
        }
    }
}
"""
PROGRAM = Program({"program": compile_source(SOURCE).program, "workflow": "t.Hurries"})
HANDLERS = Handlers.of({"t.Echo": lambda n: {"n": n}})
ENDS = {"cancel": RunnerState.CANCELED, "detach": RunnerState.RUNNING}


def states(store: MemoryStore) -> set[str]:
    runs = [store.get_run(WorkflowId(f"hangs-{n}")) for n in (1, 2)]
    return {run.state for run in runs if run is not None}


@pytest.mark.parametrize("closing", ENDS)
def test_a_run_that_is_taken_up_does_its_own_work(closing: str) -> None:
    store = MemoryStore()
    evaluator = Evaluator(store)
    parent = evaluator.submit(PROGRAM, {"closing": closing})
    for run in (parent, "hangs-1", "hangs-2"):
        evaluator.resume(WorkflowId(run))
    while len(store.get_tasks_by_workflow(parent)) < 4:  # until both were waited for long enough
        reclaim(evaluator)
        evaluator.resume(parent)
    with LocalRunner(evaluator, HANDLERS) as runner:
        assert runner.resume(parent).outputs == {"all": [1, 2]}
    assert states(store) == {ENDS[closing]}
    store.close()


@pytest.mark.parametrize("closing", ENDS)
def test_work_that_found_no_room_at_first_is_done(closing: str) -> None:
    store = MemoryStore()
    with LocalRunner(Evaluator(store), HANDLERS, concurrency=1, awaits=lambda task: True) as runner:
        result = runner.run(PROGRAM, {"closing": closing})
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"all": [1, 2]})
    assert states(store) == {ENDS[closing]}
    store.close()
