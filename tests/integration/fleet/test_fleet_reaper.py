"""What is left of an agent that was killed: nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from support.eventually import eventually
from support.fleet_processes import is_gone
from support.processes import python

from afl.fleet.reaper import Reaper, find_marked, listen

AGENT = """
import asyncio, sys
from support.fleet_records import shell, workflow, fetched, ListSpool
from afl.fleet.reaper import Reaper
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager

async def main():
    reaper = Reaper(0.3)
    print(reaper.pid, flush=True)
    tasks = {
        "plain": shell("echo $$ > plain; exec sleep 600"),
        "child": shell("sleep 600 & echo $! > child; wait"),
        "deaf": shell("trap '' TERM; echo $$ > deaf; while :; do sleep 600; done"),
        "left": shell("setsid sh -c 'echo $$ > left; exec sleep 600'"),
        "bare": shell("exec env -i sh -c 'echo $$ > bare; exec sleep 600'"),
    }
    spool = ListSpool()
    say = lambda record: print(record.status, flush=True)
    spool.received.append(lambda record: asyncio.get_running_loop().call_soon(say, record))
    manager = TaskManager(spool, 5, TaskResources(reaper=reaper))
    await manager.run(fetched(workflow(**tasks)))

asyncio.run(main())
"""
NAMES = ("plain", "child", "deaf", "left", "bare")


def pids(folder: Path) -> list[int] | None:
    texts = [(folder / name).read_text() if (folder / name).exists() else "" for name in NAMES]
    return [int(text) for text in texts] if all(text.endswith("\n") for text in texts) else None


def test_every_process_of_a_killed_agent_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with python("-c", AGENT, PYTHONPATH=path) as agent:
        assert agent.stdout is not None
        reaper = int(agent.stdout.readline())
        for _ in range(6):  # the run and each of its tasks: then the reaper has been told of them
            while agent.stdout.readline() != "RUNNING\n":
                pass
        started = eventually(lambda: pids(tmp_path))
        assert not any(is_gone(pid) for pid in started)
        agent.send_signal(signal.SIGKILL)
        agent.wait()
    assert eventually(lambda: all(is_gone(pid) for pid in started))
    assert eventually(lambda: is_gone(reaper))


def test_a_reaper_goes_quietly_with_an_orderly_agent() -> None:
    reaper = Reaper(5)
    reaper.begin("one")
    reaper.started("one", 2**22 - 1)
    reaper.ended("one")
    pid = reaper.pid
    reaper.close()
    assert is_gone(pid)
    reaper.close()


def test_what_is_open_when_the_pipe_ends() -> None:
    told = ["+a\n", "=a 12\n", "+b\n", "+c\n", "=c 13\n", "-c\n", "=b 1"]  # the last was cut off
    assert listen(told) == {"a": 12, "b": 0}


def test_marks_are_found_in_the_environment() -> None:
    with python("-c", "print(1, flush=True); input()", AFL_TASK_INSTANCE="test-mark-1") as child:
        assert child.stdout is not None and json.loads(child.stdout.readline()) == 1
        assert find_marked(["test-mark-1"]) == [child.pid]
        assert find_marked(["test-mark"]) == []
        assert find_marked([]) == []
