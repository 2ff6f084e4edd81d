"""What a worker sends to a server over HTTP, from several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from afl.client.remote_tasks import RemoteTasks
from afl.client.store_client import OperationsClient
from afl.operations.problems import ServerAway
from afl.operations.work.remote_claims import Heartbeat
from afl.operations.work.remote_work import complete_work, heartbeat_work
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.types import WorkflowId
from afl.runtime.worker.results import TaskResult

LINES = [f"line {number}" for number in range(1_500)]


class SlowServer:
    """It answers the first heartbeat when it is told to, and writes down the lines that come."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem = problem
        self.lines: list[str] = []
        self.asked, self.answers = threading.Event(), threading.Event()

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if function is heartbeat_work:
            if not self.asked.is_set():
                self.asked.set()
                assert self.answers.wait(30)
                if self.problem is not None:
                    raise self.problem
            self.lines += [line.message for claim in args[0] for line in claim.logs]
            return Heartbeat(["t"], [])
        assert function is complete_work
        self.lines += [line.message for line in kwargs["logs"]]
        return None


@pytest.mark.parametrize("problem", [None, ServerAway("it does not answer")])
def test_a_report_waits_for_the_lines_before_its_own(problem: Exception | None) -> None:
    server = SlowServer(problem)
    tasks = RemoteTasks(cast(OperationsClient, server), ["Ask"], "default", "one", 1)
    task = TaskDefinition("t", "Ask", "r", WorkflowId("run"), "f", "s")
    for number, line in enumerate(LINES):
        tasks.save_log(LogDefinition(f"l{number}", number, "r", object_id="t", message=line))

    def keep() -> None:
        try:
            tasks.heartbeat({("t", 1)})
        except ServerAway:
            assert problem is not None

    keeper = threading.Thread(target=keep)
    keeper.start()
    assert server.asked.wait(30)
    assert (
        tasks.heartbeat({("t", 1)}) == set()
    )  # of another round: it does not wait, and sends none of the lines
    reporter = threading.Thread(target=tasks.report, args=[TaskResult(task, {"answer": "a"})])
    reporter.start()
    reporter.join(0.2)  # long enough to send, if it did not wait
    server.answers.set()
    keeper.join()
    reporter.join()
    assert server.lines == LINES
