"""A death before every write, of senders and evaluators: every signal is received once, in order, by the step meant."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from support.lives import Crash, Death, Lives

from afl.language import compile_source
from afl.runtime.entities import RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.signals import signal
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Note(n: Long) => (text: String) with Signal("note")
    event facet Other(n: Long) => (n: Long) with Signal("other")
    workflow W() => (texts: String, n: Long) andThen {
        a = Note(n = 1)
        b = Note(n = 2)
        o = Other(n = 3)
        c = Note(n = o.n)
        yield W(texts = a.text ++ b.text ++ c.text, n = o.n)
    }
}
"""
EARLY = [("note", "1", {"text": "a"})]
LATE = [("note", "2", {"text": "b"}), ("note", "3", {"text": "c"}), ("other", "4", {"n": 5})]
PROGRAM = Program({"program": compile_source(SOURCE).program, "workflow": "t.W"})


def by_evaluator(store: PersistenceAPI, run: WorkflowId) -> None:
    Evaluator(store).resume(run)


def by_runner(store: PersistenceAPI, run: WorkflowId) -> None:
    with LocalRunner(Evaluator(store), Handlers()) as runner:
        runner.resume(run)


DRIVES: dict[str, Callable[[PersistenceAPI, WorkflowId], None]] = {
    "evaluator": by_evaluator,
    "runner": by_runner,
}


def the_run(store: PersistenceAPI) -> RunDefinition:
    (run,) = store.get_runs()
    return run


def live(store: PersistenceAPI, drive: Callable[[PersistenceAPI, WorkflowId], None]) -> RunDefinition:
    """All that there is to do; senders repeat what they do not know to have arrived."""
    store.reclaim()
    evaluator = Evaluator(store)
    if not store.get_runs():
        evaluator.submit(PROGRAM)
    run = WorkflowId(the_run(store).workflow_id)
    for signals in (EARLY, LATE):
        for name, id, value in signals:
            signal(evaluator, the_run(store), name, value, id)
        drive(store, run)
    return the_run(store)


@pytest.mark.parametrize("drive", DRIVES)
def test_a_death_before_every_write(drive: str) -> None:
    for write in count(1):
        lives = Lives()
        try:
            live(lives.next(Death(write, after=False)), DRIVES[drive])
            survived = True
        except Crash:
            survived = False
        check(lives.next(), DRIVES[drive])
        lives.end()
        if survived:
            assert write > 8
            return


def check(store: PersistenceAPI, drive: Callable[[PersistenceAPI, WorkflowId], None]) -> None:
    run = live(store, drive)
    assert run.outputs == {"texts": "abc", "n": 5}
    workflow_id = WorkflowId(run.workflow_id)
    received = [store.get_signal(workflow_id, id) for _, id, _ in (*EARLY, *LATE)]
    tasks = [each.task_id for each in received if each is not None]
    assert len(set(tasks)) == len(tasks) == 4 and all(tasks)
