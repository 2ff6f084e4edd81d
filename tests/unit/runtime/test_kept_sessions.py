"""A run that one process keeps in memory, while others finish its tasks: what they stored counts."""

from __future__ import annotations

from pathlib import Path

from afl.language import compile_source
from afl.runtime.entities import RunnerState
from afl.runtime.evaluation.outcome import completed
from afl.runtime.evaluator import Evaluator
from afl.runtime.program.program import Program
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.types import StepId

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    workflow W(n: Long) => (m: Long) andThen {
        w = Work(n = $.n)
        yield W(m = w.m)
    }
}
"""


def test_the_result_that_another_process_stored_is_read_before_the_step_goes_on(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'afl.db'}"
    ours, others = SqliteStore(url), SqliteStore(url)
    program = Program({"program": compile_source(SOURCE).program, "workflow": "t.W"})
    evaluator = Evaluator(ours)
    run_id = evaluator.submit(program, {"n": 1})
    session = evaluator.take(run_id)
    assert session is not None
    session.advance()
    session.settle()  # kept: the step is in our memory as it was before its task was done

    task = others.claim_task(["t.Work"])
    assert task is not None
    step = others.get_step(StepId(task.step_id))
    assert step is not None
    assert others.finish([completed(program, step, task, {"m": 7})]) == [True]

    session.consume(ours.get_marks(run_id))
    session.advance()
    session.close()
    run = ours.get_run(run_id)
    assert run is not None
    assert (run.state, run.outputs) == (RunnerState.COMPLETED, {"m": 7}), run.error
    ours.close()
    others.close()
