"""A worker over HTTP in Python: its handlers can know and say what those of a worker on the store can."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from support.dashboards import TOKENS, served, settings_for, with_users

import afl
from afl.bridges.marks import answers
from afl.client.client import Client
from afl.client.connection import connect
from afl.client.http_client import HttpClient
from afl.client.remote_tasks import RemoteTasks
from afl.client.worker import make_worker
from afl.kernel.errors import (
    AgentFlowError,
    CapabilityError,
    Forbidden,
    InputError,
    StoreUnavailable,
    Throttled,
    Unauthenticated,
)
from afl.kernel.settings import Settings
from afl.operations.problems import ServerAway, ServerDefect
from afl.operations.roles import Role
from afl.operations.work.offers import Offer
from afl.operations.work.remote_work import claim_work, complete_work, heartbeat_work
from afl.operations.work.service import ServiceOptions
from afl.operations.work.task_queue import TaskDetail, list_tasks, show_task
from afl.operations.work.workers import servers
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler_context import HandlerContext
from afl.runtime.worker.results import TaskResult

QUIZ = """
event facet Ask(question: String) => (answer: String) with {policy}

workflow Quiz(question: String = "why?") => (answer: String) andThen {{
    asked = Ask(question = $.question)
    yield Quiz(answer = asked.answer)
}}
"""
PLAIN = QUIZ.format(policy="Timeout(minutes = 5)")


@dataclass
class Place:
    """A server with a user of each role, and a client on its store beside a worker that only evaluates."""

    store: Settings
    url: str
    flow: Client

    def connect(self, role: Role = Role.WORKER) -> Any:
        return connect(settings=settings_for(self.store.store, server=self.url, token=TOKENS[role]))

    def task(self, run: str) -> TaskDetail:
        store = open_store(self.store.store)
        try:
            (line,) = list_tasks(store, run=run)
            return show_task(store, line.task)
        finally:
            store.close()

    def liveness(self, worker: str) -> str:
        store = open_store(self.store.store)
        try:
            (found,) = [each for each in servers(store) if each.name == worker]
            return found.liveness
        finally:
            store.close()


@pytest.fixture
def place(request: pytest.FixtureRequest, empty_sqlite_url: str) -> Iterator[Place]:
    settings = with_users(empty_sqlite_url, **getattr(request, "param", {}))
    with ExitStack() as stack:
        url = stack.enter_context(served(settings))
        flow = stack.enter_context(connect(settings=settings))
        stack.enter_context(flow.worker())
        yield Place(settings, url, flow)


def test_a_handler_knows_its_work_and_what_it_says_is_in_the_log(place: Place) -> None:
    known: dict[str, Any] = {}

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        context.log("began", level="warning", page=3)
        context.progress(0.5)
        context.heartbeat()
        known.update(run=context.workflow_id, key=context.idempotency_key, attempt=context.attempt)
        known.update(remaining=context.remaining, facet=context.facet)
        context.log("ends")
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}, name="clerk"):
        run = place.flow.start(PLAIN)
        assert run.result(timeout=30) == {"answer": "why?"}
    assert known.pop("remaining") > 200
    assert known.pop("key") == place.task(run.id).line.step_id
    assert known == {"run": run.id, "attempt": 1, "facet": "Ask"}
    lines = [(line.message, line.level, line.details) for line in run.logs()]
    assert lines == [
        ("began", "warning", {"page": 3}),
        ("50%", "info", {"progress": 0.5}),
        ("ends", "info", {}),
    ]
    (attempt,) = place.task(run.id).attempts
    assert (attempt.worker, attempt.outcome) == ("http:worker:clerk", "completed")


def test_as_many_handlers_run_at_a_time_as_there_are_slots(place: Place) -> None:
    together = threading.Barrier(4)

    def ask(question: str) -> dict[str, str]:
        together.wait(60)
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}, concurrency=4):
        runs = [place.flow.start(PLAIN, question=str(number)) for number in range(12)]
        assert [run.result(timeout=60)["answer"] for run in runs] == [str(number) for number in range(12)]


def test_a_handler_learns_that_its_run_was_canceled(place: Place) -> None:
    begun, told = threading.Event(), threading.Event()

    async def ask(question: str) -> dict[str, str]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            told.set()
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}):
        run = place.flow.start(PLAIN)
        assert begun.wait(60)
        run.cancel()
        assert told.wait(60)
    assert place.task(run.id).line.state == "canceled"


def test_a_heartbeat_of_a_handler_raises_once_its_task_is_gone(place: Place) -> None:
    begun, canceled = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        begun.set()
        assert canceled.wait(60)
        try:
            context.heartbeat()
        except afl.WorkCanceled as error:
            raised.append(error)
            raise
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}):
        run = place.flow.start(PLAIN)
        assert begun.wait(60)
        run.cancel()
        canceled.set()
    assert len(raised) == 1


@pytest.mark.parametrize(
    "result", [{"answer": object()}, {"answer": float("nan")}, {"answer": {1: 2, "1": 3}}]
)
def test_what_is_no_plain_data_fails_the_step_at_once(place: Place, result: Any) -> None:
    """As on the store: trying again would not change it."""
    with place.connect() as flow, flow.worker({"Ask": lambda question: result}):
        run = place.flow.start(QUIZ.format(policy="Retry(attempts = 3)"))
        with pytest.raises(afl.RunFailed, match="the result of Ask"):
            run.result(timeout=30)
    (attempt,) = place.task(run.id).attempts
    assert attempt.error_type == "PayloadError"


def test_an_error_may_have_any_characters(place: Place) -> None:
    """Such as those of a process that printed them; a report that is refused would be made again and again."""

    def ask(question: str) -> None:
        raise ValueError("exit 1: a\0b \ud800")

    with place.connect() as flow, flow.worker({"Ask": ask}):
        run = place.flow.start(PLAIN)
        with pytest.raises(afl.RunFailed, match=r"exit 1: a.b") as failed:
            run.result(timeout=30)
    assert "exit 1: a" in failed.value.traceback


def test_a_handler_that_fails_is_tried_again_and_one_that_is_too_slow_times_out(place: Place) -> None:
    calls: list[str] = []

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        calls.append(question)
        if question == "slow":
            context.cancellation.wait(60)
        if len(calls) < 3:
            raise ConnectionError("busy")
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}):
        run = place.flow.start(QUIZ.format(policy="Retry(attempts = 3, backoff = 1)"))
        assert run.result(timeout=30) == {"answer": "why?"}
        late = place.flow.start(QUIZ.format(policy="Timeout(ms = 200)"), question="slow")
        with pytest.raises(afl.RunFailed, match="200 ms"):
            late.result(timeout=30)
    attempts = place.task(run.id).attempts
    assert [each.outcome for each in attempts] == ["failed", "failed", "completed"]
    assert "in ask" in attempts[0].location and "ConnectionError: busy" in attempts[0].traceback


def test_a_worker_that_stops_lets_its_handlers_end(place: Place) -> None:
    begun = threading.Event()

    def ask(question: str) -> dict[str, str]:
        begun.set()
        while place.liveness("clerk") != "stopping":
            pass
        return {"answer": question}

    with place.connect() as flow:
        with flow.worker({"Ask": ask}, name="clerk"):
            run = place.flow.start(PLAIN)
            assert begun.wait(60)
        assert place.task(run.id).line.state == "completed"


def test_what_does_not_end_in_time_goes_to_others_at_once(place: Place) -> None:
    begun, end = threading.Event(), threading.Event()

    def hang(question: str) -> dict[str, str]:
        begun.set()
        assert end.wait(60)
        return {"answer": "late"}

    with place.connect() as flow:
        with flow.worker({"Ask": hang}, shutdown_seconds=0):
            run = place.flow.start(PLAIN)
            assert begun.wait(60)
        with flow.worker({"Ask": lambda question: {"answer": "again"}}):
            assert run.result(timeout=30) == {"answer": "again"}
    end.set()
    assert [each.outcome for each in place.task(run.id).attempts] == ["released", "completed"]


class Unreliable(HttpClient):
    """A client whose requests fail a few times: before the server has them, or when its answer is on the way."""

    failures = 0
    error: type[AgentFlowError] = ServerAway

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        fails = function in (claim_work, heartbeat_work, complete_work) and self.failures > 0
        self.failures -= fails
        if fails and function is not complete_work:
            raise self.error("no server answers")
        result = super().call(function, *args, **kwargs)
        if fails:
            raise self.error("the answer was lost")
        return result


@pytest.mark.parametrize("error", [ServerAway, ServerDefect, StoreUnavailable, Throttled])
def test_requests_that_get_lost_are_sent_again(place: Place, error: type[AgentFlowError]) -> None:
    client = Unreliable(place.url, TOKENS[Role.WORKER])
    client.error = error
    calls: list[str] = []

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        calls.append(question)
        client.failures = 2
        context.log("asked")
        context.heartbeat()
        return {"answer": question}

    with make_worker(client, place.store, {"Ask": ask}, ServiceOptions(concurrency=1)):
        for number in range(3):
            run = place.flow.start(PLAIN, question=str(number))
            assert run.result(timeout=60) == {"answer": str(number)}
            assert [line.message for line in run.logs()] == ["asked"]
    assert calls == ["0", "1", "2"]


def test_what_the_server_refuses_is_raised_where_the_worker_begins(place: Place) -> None:
    def begin(token: str, **more: Any) -> None:
        settings = settings_for(place.store.store, server=place.url, token=token)
        with connect(settings=settings) as flow, flow.worker({"Ask": print}, **more):
            pass

    with pytest.raises(Unauthenticated):
        begin("wrong")
    with pytest.raises(Forbidden, match="claim work takes worker"):
        begin(TOKENS[Role.OPERATOR])
    with pytest.raises(InputError, match="worker"):
        begin(TOKENS[Role.WORKER], name="two words")
    begin(TOKENS[Role.ADMIN])
    with pytest.raises(ServerAway), connect("http://127.0.0.1:1") as flow, flow.worker({"Ask": print}):
        pass


def test_over_http_a_worker_has_handlers_alone(place: Place) -> None:
    module = ModuleType("answering")
    module.answer = answers("clerk")(lambda payload: payload)  # type: ignore[attr-defined]
    with place.connect() as flow:
        for handlers in (None, Offer().handlers, module):
            with pytest.raises(CapabilityError, match="over HTTP"):
                flow.worker(handlers)


def test_many_and_long_lines_reach_the_log(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """They are more than one request brings."""
    afl.redact("open sesame")

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        for number in range(2_500):
            context.log(f"line {number}")
        context.log("x" * 200_000)
        context.log("a\0b says open sesame")
        return {"answer": question}

    with place.connect() as flow, flow.worker({"Ask": ask}):
        run = place.flow.start(PLAIN)
        assert run.result(timeout=60) == {"answer": "why?"}
    lines = [line.message for line in run.logs()]
    assert lines[:2_500] == [f"line {number}" for number in range(2_500)]
    assert [len(line) for line in lines[2_500:]] == [65_536, len("a?b says ***")]
    assert lines[-1] == "a\N{REPLACEMENT CHARACTER}b says ***"
    assert "not stored" not in caplog.text


@pytest.mark.parametrize("place", [{"max_payload_bytes": 1_000_000}], indirect=True)
def test_the_lines_of_many_tasks_are_sent_one_part_after_another(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Together they are more than the server takes; the oldest come first."""
    runs = {run.id: run for run in [place.flow.start(PLAIN) for _ in range(20)]}
    tasks = RemoteTasks(HttpClient(place.url, TOKENS[Role.WORKER]), ["Ask"], "default", "clerk", 20)
    held: list[TaskDefinition] = []
    while len(held) < len(runs):
        held += tasks.claim(20, 10)
    for number, task in enumerate([each for each in held for _ in range(100)]):
        line = LogDefinition(f"l{number}", number, "", object_id=task.uuid, message=f"{number:0900}")
        tasks.save_log(line)
    claims = {(each.uuid, each.epoch) for each in held}
    assert tasks.heartbeat(claims) == set()
    assert [line.message for line in runs[held[0].workflow_id].logs()] == [f"{n:0900}" for n in range(100)]
    assert tasks.heartbeat(claims) == set()
    for task in held:
        tasks.report(TaskResult(task, {"answer": "a"}))
    lines = [line.message for task in held for line in runs[task.workflow_id].logs()]
    assert lines == [f"{number:0900}" for number in range(2_000)]
    assert "not stored" not in caplog.text


def test_a_worker_with_very_many_slots(place: Place) -> None:
    """More than one request claims or keeps."""
    many = 1_100
    together = asyncio.Semaphore(0)
    begun = []

    async def ask(question: str) -> dict[str, str]:
        begun.append(question)
        if len(begun) == many:
            for _ in range(many):
                together.release()
        await together.acquire()
        return {"answer": question}

    questions = ", ".join(f'"{number}"' for number in range(many))
    source = (
        "event facet Ask(question: String) => (answer: String)\n"
        f"workflow All() andThen foreach each in [{questions}] {{ asked = Ask(question = each) }}"
    )
    with place.connect() as flow, flow.worker({"Ask": ask}, concurrency=many):
        assert place.flow.run(source, timeout=60) == {}
    assert sorted(begun, key=int) == [str(number) for number in range(many)]


@pytest.mark.parametrize("place", [{"max_payload_bytes": 50_000}], indirect=True)
def test_what_is_too_large_for_the_server(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """A line costs neither the lease nor the result; a result fails the step, and is not tried again."""

    def ask(question: str, context: HandlerContext) -> dict[str, str]:
        for _ in range(2):
            context.log("begins", much="x" * 30_000)
        context.heartbeat()
        for _ in range(2):
            context.log("ends", much="x" * 30_000)
        return {"answer": "y" * 49_950 if question == "much" else question}

    with place.connect() as flow, flow.worker({"Ask": ask}):
        assert place.flow.run(PLAIN, timeout=60) == {"answer": "why?"}
        assert "lines of log are not stored" in caplog.text
        run = place.flow.start(QUIZ.format(policy="Retry(attempts = 3)"), question="much")
        with pytest.raises(afl.RunFailed, match="larger than 50,000 bytes"):
            run.result(timeout=60)
    (attempt,) = place.task(run.id).attempts
    assert attempt.error_type == "PayloadError"
