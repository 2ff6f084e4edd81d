"""What handlers leave behind does not keep a command from ending, and their children do not act as the worker."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.command_line import environment
from support.warm_processes import WarmPopen, afl_warm

from afl.runtime.entities import RunnerState
from afl.runtime.sqlite_store import SqliteStore

SOURCE = """event facet Work() => (m: Long)
workflow One() => (m: Long) andThen {
    a = Work()
    yield One(m = a.m)
}
"""
START = "import os, sys, threading, time\nfrom afl import handler\n\n@handler('Work')\ndef work():\n"
THREAD = """
    threading.Thread(target=threading.Event().wait, name="leaked", daemon=False).start()
    return {"m": 1}
"""
POOL = """
    from concurrent.futures import ThreadPoolExecutor
    pool = ThreadPoolExecutor(2)
    pool.submit(time.sleep, 0).result()
    global kept
    kept = pool
    return {"m": 1}
"""
# It ends by itself once nobody needs it as an example any more, and keeps none of our pipes open.
PROCESS = """
    import multiprocessing
    multiprocessing.get_context("fork").Process(target=wait_for_end, args=(os.getpid(),), name="kid").start()
    return {"m": 1}

def wait_for_end(parent):
    os.close(1)
    os.close(2)
    while os.getppid() == parent:
        time.sleep(0.01)
"""
FORK = """
    if os.fork() == 0:
        return {"m": 2}
    os.wait()
    return {"m": 1}
"""
FORK_AND_EXIT = """
    if os.fork() == 0:
        sys.exit(7)
    return {"m": os.waitstatus_to_exitcode(os.wait()[1])}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "one.afl").write_text(SOURCE)
    return tmp_path


def run(folder: Path, body: str) -> tuple[int, str, str]:
    (folder / "agents.py").write_text(START + body)
    done = afl_warm("run", "one.afl", "--agent", "agents.py", "--quiet", folder=folder)
    return done.code, done.out, done.err


def test_a_thread_that_does_not_end_is_named_and_left(folder: Path) -> None:
    code, out, err = run(folder, THREAD)
    assert (code, json.loads(out)) == (0, {"m": 1})
    assert "Warning: left behind, since they do not end: thread leaked (at threading.py:" in err


def test_threads_that_end_with_the_interpreter_are_not_worth_a_word(folder: Path) -> None:
    assert run(folder, POOL) == (0, '{\n  "m": 1\n}\n', "")


def test_a_child_process_that_does_not_end_is_named_and_left(folder: Path) -> None:
    code, out, err = run(folder, PROCESS)
    assert (code, json.loads(out)) == (0, {"m": 1})
    assert "left behind, since they do not end: process " in err
    assert " (kid)" in err


def test_a_forked_child_that_returns_ends_and_does_not_act_as_the_worker(folder: Path) -> None:
    code, out, err = run(folder, FORK)
    assert (code, json.loads(out)) == (0, {"m": 1})
    assert "which the handler of Work forked, returned there and ends here" in err


def test_a_forked_child_that_exits_is_the_handlers_own(folder: Path) -> None:
    code, out, err = run(folder, FORK_AND_EXIT)
    assert (code, json.loads(out), err) == (0, {"m": 7}, "")


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit('enough')"])
def test_a_handler_that_would_end_the_command_fails_as_any_other(folder: Path, raised: str) -> None:
    code, out, err = run(folder, f"    raise {raised}\n")
    assert (code, out) == (1, "")
    assert ("KeyboardInterrupt" if raised == "KeyboardInterrupt" else "enough") in err
    store = SqliteStore(f"sqlite:///{folder}/.afl/afl.db")
    (found,) = store.get_runs()
    store.close()
    assert found.state == RunnerState.FAILED


def test_an_agent_that_stopped_ends(folder: Path) -> None:
    (folder / "agents.py").write_text(START + THREAD)
    assert afl_warm("submit", "one.afl", folder=folder).code == 0
    command = ["-m", "afl", "agent", "agents.py"]
    with WarmPopen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE) as agent:
        assert agent.stderr is not None
        told = ""
        while "✓ Work" not in told:
            told += agent.stderr.readline()
        agent.terminate()
        told = agent.stderr.read()
    assert agent.returncode == 0
    assert "Stopped." in told
    assert "left behind, since they do not end: thread leaked" in told
