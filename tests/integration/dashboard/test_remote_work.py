"""Workers over HTTP, request by request: claims, heartbeats and reports are fenced like those of any other worker."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from support.dashboards import API, TOKENS, served, with_users

from afl.client.client import Client
from afl.client.connection import connect
from afl.kernel.settings import Settings
from afl.operations.access import hash_token
from afl.operations.roles import Role
from afl.operations.run.runs import RunFailed

QUIZ = """
event facet Ask(question: String) => (answer: String) with {policy}

workflow Quiz(question: String = "why?") => (answer: String) andThen {{
    asked = Ask(question = $.question)
    yield Quiz(answer = asked.answer)
}}
"""
PLAIN = QUIZ.format(policy="Timeout(minutes = 5)")
OTHER = "token-of-another-worker"


@dataclass
class Place:
    """A server, and a client on its store beside a worker that evaluates runs and has no handlers."""

    url: str
    flow: Client

    def ask(self, path: str, token: str = TOKENS[Role.WORKER], **body: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx2.post(f"{self.url}{API}/work/{path}", json=body, headers=headers, timeout=60)

    def claim(self, worker: str = "one", **more: Any) -> list[dict[str, Any]]:
        body = {"facets": ["Ask"], "wait": 20, "worker": worker, **more}
        answer = self.ask("claim", **body)
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["tasks"]
        return found

    def claim_one(self, worker: str = "one", **more: Any) -> dict[str, Any]:
        (task,) = self.claim(worker, **more)
        return task

    def report(self, task: dict[str, Any], how: str, worker: str = "one", **body: Any) -> httpx2.Response:
        return self.ask(f"{task['task']}/{how}", epoch=task["epoch"], worker=worker, **body)

    def heartbeat(self, *tasks: dict[str, Any], worker: str = "one", **more: Any) -> dict[str, Any]:
        claims = [{"task": each["task"], "epoch": each["epoch"]} for each in tasks]
        found: dict[str, Any] = self.ask("heartbeat", tasks=claims, worker=worker, **more).json()
        return found

    def look(self, path: str) -> Any:
        headers = {"Authorization": f"Bearer {TOKENS[Role.VIEWER]}"}
        return httpx2.get(f"{self.url}{API}/{path}", headers=headers, timeout=60).json()

    def attempts(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.look(f"tasks/{task['task']}")["attempts"]
        return found

    def listed(self) -> dict[str, dict[str, Any]]:
        """The remote workers in the registry of servers, by name."""
        return {each["name"]: each for each in self.look("servers") if each["service"] == "http-worker"}


def settings_of(url: str) -> Settings:
    """One user for each role, and one more worker."""
    settings = with_users(url)
    other = ("another", {"role": "worker", "token": hash_token(OTHER)})
    return replace(settings, users=(*settings.users, other))


@pytest.fixture(params=["sqlite", "postgres", "mongo"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    settings = settings_of(request.getfixturevalue(f"empty_{request.param}_url"))
    with ExitStack() as stack:
        url = stack.enter_context(served(settings))
        flow = stack.enter_context(connect(settings=settings))
        stack.enter_context(flow.worker())
        yield Place(url, flow)


def test_a_task_is_claimed_kept_and_completed(place: Place) -> None:
    run = place.flow.start(PLAIN, question="so?")
    task = place.claim_one(lease_ms=30_000)
    assert (task["facet"], task["inputs"], task["attempt"]) == ("Ask", {"question": "so?"}, 1)
    assert (task["run"], task["idempotency_key"]) == (run.id, task["step"])
    assert (task["lease_ms"], task["timeout_ms"]) == (30_000, 300_000)
    line = {"message": "half of it", "progress": 0.5, "id": "a"}
    for _ in range(2):  # of a line that is sent twice one is stored
        claims = [{"task": task["task"], "epoch": task["epoch"], "logs": [line]}]
        kept = place.ask("heartbeat", tasks=claims, worker="one").json()
        assert kept == {"held": [task["task"]], "lost": []}
    for _ in range(2):  # a report whose answer was lost may be sent again
        told = place.report(task, "complete", result={"answer": "SO?"}, logs=[{"message": "done"}])
        assert (told.status_code, told.json()["state"]) == (200, "completed")
    assert run.result(timeout=30) == {"answer": "SO?"}
    assert [(each.message, each.details) for each in run.logs()] == [
        ("half of it", {"progress": 0.5}),
        ("done", {}),
    ]
    assert place.report(task, "fail", message="no").status_code == 409


def test_a_result_that_does_not_fit_fails_the_step(place: Place) -> None:
    for result in ({"answer": 1}, {}, "text", None):
        run = place.flow.start(PLAIN)
        told = place.report(place.claim_one(), "complete", result=result).json()
        assert told["state"] == "failed" and told["error"].startswith("Ask: ")
        with pytest.raises(RunFailed, match="Ask: "):
            run.result(timeout=30)


def test_a_failure_is_tried_again_as_the_workflow_says(place: Place) -> None:
    run = place.flow.start(QUIZ.format(policy='Retry(attempts = 3, backoff = 1, on = ["Busy"])'))
    failure = {
        "message": "later",
        "error_type": "Busy",
        "traceback": "at fetch\nat main",
        "location": "w.mjs:3",
    }
    first = place.claim_one()
    told = place.report(first, "fail", **failure).json()
    assert (told["state"], told["error"]) == ("pending", "later") and told["retry_in_ms"] >= 0
    assert place.report(first, "fail", **failure).json() == told  # sent again, as its answer was lost
    again = place.claim_one("two")
    assert again["attempt"] == 2
    assert place.report(first, "fail", **failure).status_code == 409
    assert place.report(again, "fail", "two", message="broken", error_type="Bug").json()["state"] == "failed"
    with pytest.raises(RunFailed, match="broken"):
        run.result(timeout=30)
    first, second = place.attempts(again)
    assert [first[name] for name in ("outcome", "error_type", "traceback", "location")] == [
        "failed",
        "Busy",
        "at fetch\nat main",
        "w.mjs:3",
    ]
    assert (second["error_type"], second["worker"]) == ("Bug", "http:worker:two")


def test_what_is_not_retryable_is_not_tried_again(place: Place) -> None:
    place.flow.start(QUIZ.format(policy="Retry(attempts = 3)"))
    assert place.report(place.claim_one(), "fail", message="no", retryable=False).json()["state"] == "failed"


def test_after_its_lease_a_task_goes_to_another_and_the_late_report_is_refused(place: Place) -> None:
    run = place.flow.start(PLAIN)
    late = place.claim_one(lease_ms=300)
    other = place.claim_one("two")
    assert (other["task"], other["attempt"]) == (late["task"], 2) and other["epoch"] > late["epoch"]
    assert other["idempotency_key"] == late["idempotency_key"]
    lost = place.heartbeat(late)
    assert lost["held"] == [] and "another worker has it now" in lost["lost"][0]["why"]
    for how, body in (("complete", {"result": {"answer": "late"}}), ("fail", {"message": "late"})):
        refused = place.report(late, how, **body)
        assert refused.status_code == 409
        error = refused.json()["error"]
        assert error["code"] == "fenced-error" and "another worker has it now" in error["message"]
    assert place.report(other, "complete", "two", result={"answer": "in time"}).status_code == 200
    assert place.report(late, "complete", result={"answer": "late"}).status_code == 409
    assert run.result(timeout=30) == {"answer": "in time"}
    assert [each["outcome"] for each in place.attempts(late)] == ["expired", "completed"]


def test_a_claim_is_its_workers_own(place: Place) -> None:
    place.flow.start(PLAIN)
    task = place.claim_one()
    assert place.report(task, "complete", "two", result={"answer": "a"}).status_code == 409
    foreign = {"epoch": task["epoch"], "worker": "one", "result": {"answer": "a"}}
    assert place.ask(f"{task['task']}/complete", OTHER, **foreign).status_code == 409
    assert place.report({**task, "epoch": 7}, "complete", result={"answer": "a"}).status_code == 409
    assert place.report({**task, "task": "nothing"}, "complete", result={}).status_code == 404
    assert place.report(task, "complete", result={"answer": "a"}).status_code == 200


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_of_a_heartbeat_that_is_refused_nothing_is_stored(place: Place) -> None:
    """Whoever sends it again, corrected, would find its lines twice."""
    run = place.flow.start(PLAIN)
    task = place.claim_one()
    claim = {"task": task["task"], "epoch": task["epoch"]}
    lines = ({"message": "begun"}, {"message": "careful", "level": "loud"})
    answer = place.ask("heartbeat", worker="one", tasks=[{**claim, "logs": [line]} for line in lines])
    assert answer.status_code == 422 and "info|warning|error" in answer.json()["error"]["message"]
    assert list(place.look(f"runs/{run.id}/logs")["lines"]) == []


def test_a_heartbeat_says_that_the_run_was_canceled(place: Place) -> None:
    run = place.flow.start(PLAIN)
    task = place.claim_one()
    assert place.heartbeat(task)["held"] == [task["task"]]
    run.cancel()
    assert [each["why"] for each in place.heartbeat(task)["lost"]] == ["it is canceled"]
    assert (
        "it is canceled" in place.report(task, "complete", result={"answer": "a"}).json()["error"]["message"]
    )


def test_the_time_that_the_workflow_gives_ends_despite_heartbeats(place: Place) -> None:
    run = place.flow.start(QUIZ.format(policy="Timeout(ms = 300)"))
    task = place.claim_one(lease_ms=60_000)
    with pytest.raises(RunFailed, match="300 ms"):
        run.result(timeout=30)
    assert place.report(task, "complete", result={"answer": "a"}).status_code == 409


def test_the_registry_of_servers_has_remote_workers(place: Place) -> None:
    place.claim(wait=0, capacity=3)

    def listed() -> dict[str, Any]:
        mine = place.listed()["one"]
        return {name: mine[name] for name in ("name", "liveness", "handlers", "capacity")}

    running = {"name": "one", "liveness": "running", "handlers": ["Ask"], "capacity": 3}
    assert listed() == running
    assert place.ask("stop", worker="one").json() == {"returned": 0}
    assert listed() == {**running, "liveness": "stopped"}
    place.claim(wait=0, capacity=3)
    assert listed() == running


def test_the_registry_counts_what_remote_workers_report(place: Place) -> None:
    for _ in range(7):
        place.flow.start(PLAIN)
    tasks = [place.claim_one() for _ in range(7)]
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda task: place.report(task, "complete", result={"answer": "a"}), tasks[:6]))
    place.report(tasks[0], "complete", result={"answer": "a"})  # again, since its answer was lost
    place.report(tasks[6], "fail", message="no")
    place.claim(wait=0, capacity=3)
    mine = place.listed()["one"]
    assert (mine["handled"], mine["not_handled"], mine["capacity"]) == (6, 1, 3)
    place.flow.start(PLAIN)
    place.report(place.claim_one(), "complete", result={"answer": "a"})
    place.ask("stop", worker="one")
    assert place.listed()["one"]["handled"] == 7


def test_a_worker_that_stops_gives_its_tasks_back(place: Place) -> None:
    for _ in range(2):
        place.flow.start(PLAIN)
    begun, unstarted = place.claim_one(), place.claim_one()
    claims = [{"task": each["task"], "epoch": each["epoch"]} for each in (begun, unstarted)]
    assert place.ask("stop", worker="one", tasks=claims[:1], unstarted=claims[1:]).json() == {"returned": 2}
    again = {each["task"]: each["attempt"] for each in (place.claim_one("two"), place.claim_one("two"))}
    assert again == {begun["task"]: 2, unstarted["task"]: 1}
    assert place.report(begun, "complete", result={"answer": "a"}).status_code == 409


def test_a_stop_ends_the_workers_long_poll(place: Place) -> None:
    """Else the poll would get the task that comes afterwards."""
    found: list[Any] = []
    poll = threading.Thread(target=lambda: found.append(place.claim(wait=30)))
    poll.start()
    while "one" not in place.listed():
        pass
    while poll.is_alive():  # the poll may not have begun to wait when the first stop comes
        place.ask("stop", worker="one")
        poll.join(0.1)
    place.flow.start(PLAIN)
    assert found == [[]]
    assert place.claim_one("two")["attempt"] == 1


def test_who_has_hung_up_gets_no_task(place: Place) -> None:
    """With a long lease, the task would be kept from all others."""
    address = urlsplit(place.url)
    body = json.dumps({"facets": ["Ask"], "worker": "gone", "wait": 30, "lease_ms": 3_600_000}).encode()
    head = (
        f"POST {API}/work/claim HTTP/1.1\r\nHost: {address.netloc}\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {TOKENS[Role.WORKER]}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((str(address.hostname), address.port or 80)) as connection:
        connection.sendall(head.encode() + body)
        while "gone" not in place.listed():
            pass
    run = place.flow.start(PLAIN)
    task = place.claim_one("two", wait=30)
    assert (task["run"], task["attempt"]) == (run.id, 1)


def test_a_poll_does_not_get_back_what_its_worker_lost_meanwhile(place: Place) -> None:
    """It may be that of a worker that hangs."""
    place.flow.start(PLAIN)
    lost = place.claim_one(lease_ms=1_000)
    assert place.claim(wait=30) == []
    again = place.claim_one("two")
    assert (again["task"], again["attempt"]) == (lost["task"], 2)
    assert place.ask("stop", worker="two", tasks=[{"task": again["task"], "epoch": again["epoch"]}]).json()
    assert place.claim_one()["task"] == lost["task"]  # who asks anew gets it


def test_a_poll_gets_back_what_its_worker_said_had_failed(place: Place) -> None:
    """It may be the only worker there is."""
    place.flow.start(QUIZ.format(policy="Retry(attempts = 2, backoff = 500)"))
    failed = place.claim_one()
    assert place.report(failed, "fail", message="later").json()["state"] == "pending"
    again = place.claim_one(wait=30)
    assert (again["task"], again["attempt"]) == (failed["task"], 2)


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"facets": ["afl:execute"]}, "the system's own"),
        ({"facets": []}, "facets"),
        ({"facets": ["two\nlines"]}, "facets: Expected `str` without control characters"),
        ({"worker": "two words"}, "worker"),
        ({"worker": ""}, "worker"),
        ({"limit": 0}, "limit"),
        ({"by": "admin"}, "takes no 'by'"),
    ],
)
def test_what_is_wrong_is_refused(place: Place, wrong: dict[str, Any], message: str) -> None:
    answer = place.ask("claim", **{"facets": ["Ask"], "worker": "one", **wrong})
    assert answer.status_code == 422 and message in answer.json()["error"]["message"]


@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_a_worker_may_do_nothing_else(place: Place) -> None:
    headers = {"Authorization": f"Bearer {TOKENS[Role.WORKER]}"}
    for path in ("/", "/metrics", f"{API}/runs", f"{API}/tasks/x"):
        assert httpx2.get(place.url + path, headers=headers).status_code == 403
    for role in (Role.VIEWER, Role.OPERATOR):
        assert place.ask("claim", TOKENS[role], facets=["Ask"], worker="one").status_code == 403
    assert place.ask("claim", TOKENS[Role.ADMIN], facets=["Ask"], worker="one").status_code == 200
