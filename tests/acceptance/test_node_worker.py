"""A worker in JavaScript over HTTP: it does tasks, and is replaced when it dies or stands still with one in hand."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.dashboards import API, TOKENS, served, with_users
from support.node import node

import afl
from afl.client.client import Client
from afl.client.connection import connect
from afl.client.handle import RunHandle
from afl.operations.roles import Role

HERE = Path(__file__).parents[2] / "examples" / "node_worker"
WORDS = "one two three"


@dataclass
class Place:
    url: str
    flow: Client

    @contextmanager
    def worker(self, name: str, **more: str) -> Iterator[subprocess.Popen[str]]:
        """`node worker.mjs` with the address of the server and a token, and nothing else."""
        given = {"AFL_SERVER": self.url, "AFL_TOKEN": TOKENS[Role.WORKER], "WORKER_NAME": name, **more}
        process = subprocess.Popen(
            [node(), str(HERE / "worker.mjs")],
            env=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdout is not None
        with process.stdout:
            try:
                yield process
            finally:
                process.kill()
                process.wait()

    def look(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKENS[Role.VIEWER]}"}
        return httpx2.get(f"{self.url}{API}{path}", headers=headers, timeout=60).json()

    def running_task(self, run: RunHandle) -> dict[str, Any]:
        while not (found := self.look(f"/tasks?run={run.id}&state=running")):
            pass
        task: dict[str, Any] = found[0]
        return task

    def late_report(self, task: str, epoch: int, worker: str) -> httpx2.Response:
        return httpx2.post(
            f"{self.url}{API}/work/{task}/complete",
            json={"epoch": epoch, "worker": worker, "result": {"text": "late"}},
            headers={"Authorization": f"Bearer {TOKENS[Role.WORKER]}"},
            timeout=60,
        )


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    url = request.getfixturevalue(f"empty_{request.param}_url")
    settings = with_users(url, lease_ms=1000)  # who just started judges the leases of others after half of it
    with ExitStack() as stack:
        url = stack.enter_context(served(settings))
        flow = stack.enter_context(connect(settings=settings))
        stack.enter_context(flow.worker())  # evaluates runs, and has no handlers
        yield Place(url, flow)


def test_it_does_tasks_fails_and_ends_when_it_is_told_to(place: Place) -> None:
    with place.worker("node") as worker:
        runs = [place.flow.start(HERE / "poem.afl", text=f"{number} {WORDS}") for number in range(10)]
        for number, run in enumerate(runs):
            assert run.result(timeout=60) == {"text": f"three two one {number}", "length": 15}
            assert next(line.message for line in run.logs()) == "translating 15 characters"
        empty = place.flow.start(HERE / "poem.afl", text="")
        with pytest.raises(afl.RunFailed, match="there is no text") as failed:
            empty.result(timeout=60)
        assert "RangeError" in failed.value.traceback and "worker.mjs" in failed.value.traceback
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(timeout=60) == 0
    assert [each["liveness"] for each in place.look("/servers") if each["name"] == "node"] == ["stopped"]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_another_takes_its_task_over_and_the_late_report_is_refused(
    place: Place, number: signal.Signals
) -> None:
    with place.worker("first", LEASE_MS="1000", WORD_MS="600000") as first:
        run = place.flow.start(HERE / "poem.afl", text=WORDS)
        task = place.running_task(run)
        os.kill(first.pid, number)
        with place.worker("second"):
            assert run.result(timeout=60) == {"text": "three two one", "length": 13}
        if number is signal.SIGSTOP:
            os.kill(first.pid, signal.SIGCONT)
            assert first.stdout is not None
            assert any("it is completed" in line for line in first.stdout)  # by its next heartbeat
    attempts = place.look(f"/tasks/{task['task']}")["attempts"]
    assert [(each["worker"], each["outcome"]) for each in attempts] == [
        ("http:worker:first", "expired"),
        ("http:worker:second", "completed"),
    ]
    refused = place.late_report(task["task"], 1, "first")
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "fenced-error"
    assert run.result() == {"text": "three two one", "length": 13}
    completed = [event.step for event in run.events() if event.kind == "step-completed"]
    assert completed == ["translated", "checked"]
