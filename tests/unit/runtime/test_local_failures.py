"""Handlers that do their worst: the run says so and ends; it never waits for an answer that cannot come."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import environment
from support.warm_processes import run_python

SCRIPT = """
import asyncio, json, sys, threading
from afl.language import compile_source
from afl.runtime.evaluator import Evaluator
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.program import Program

SOURCE = '''
event facet Work(n: Long) => (m: Long) with Timeout(ms = 500)
workflow W(list: [Long]) => (all: [Long], why: String) andThen foreach n in $.list {
    a = Work(n = n) catch { yield Work(m = 0) yield W(why = a.error_type) }
    yield W(all = [a.m])
}
'''

def hang(n):
    threading.Event().wait()

def leave(n):
    sys.exit(3)

async def give_up(n):
    raise asyncio.CancelledError

def raise_odd(n):
    class Odd(BaseException):
        pass
    raise Odd("odd")

def work(n):
    if n == 2:
        answer = globals()[sys.argv[1]](n)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer
    return {"m": n}

program = Program({"program": compile_source(SOURCE).program, "workflow": "W"})
with LocalRunner(Evaluator(MemoryStore()), Handlers.of({"Work": work})) as runner:
    print(json.dumps(runner.run(program, {"list": json.loads(sys.argv[2])}).outputs))
"""


@pytest.mark.parametrize("numbers", ["[1, 2, 3]", "[2]"], ids=["among others", "alone"])
@pytest.mark.parametrize(
    ("how", "kind"),
    [("leave", "SystemExit"), ("give_up", "CancelledError"), ("raise_odd", "Odd"), ("hang", "Timeout")],
)
def test_a_handler_cannot_hang_the_run(tmp_path: Path, how: str, kind: str, numbers: str) -> None:
    # In a process of its own: a run that hangs would hang the tests.
    done = run_python(["-c", SCRIPT, how, numbers], folder=tmp_path, env=environment())
    outputs = '{"all": [1, 0, 3], "why": "%s"}' if "1" in numbers else '{"all": [0], "why": "%s"}'
    assert done.out.strip() == outputs % kind, done.err
