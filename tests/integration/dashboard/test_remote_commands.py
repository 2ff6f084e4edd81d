"""The command line with --server: the same commands print the same as with the store itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from support.command_line import Afl, afl
from support.dashboards import SOURCE, TOKENS, served, settings_for, with_users

from afl.operations.roles import Role
from afl.operations.run.runs import opened
from afl.runtime.entities import LogDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import TaskFilter
from afl.runtime.types import WorkflowId

__all__ = ["afl"]
FAILING = """
event facet Ask(question: String) => (answer: String)

workflow Broken(divisor: Int = 0) => (answer: Int) andThen {
    yield Broken(answer = 1 / $.divisor)
}
"""


@pytest.fixture
def store(empty_sqlite_url: str) -> str:
    return empty_sqlite_url


@pytest.fixture
def server(store: str) -> Iterator[str]:
    with served(settings_for(store)) as url:
        yield url


@pytest.fixture
def sources(tmp_path: Path) -> None:
    (tmp_path / "quiz.afl").write_text(SOURCE)
    (tmp_path / "broken.afl").write_text(FAILING)


@pytest.fixture
def finished(afl: Afl, sources: None, store: str) -> list[str]:
    """A run that completed, one that failed and one that was canceled; nothing in them moves any more."""
    runs = [
        afl("submit", name, "--store", store).out.strip() for name in ("quiz.afl", "broken.afl", "quiz.afl")
    ]
    with opened(settings_for(store)) as opened_store:
        evaluator = Evaluator(opened_store)
        for run in runs:
            evaluator.resume(WorkflowId(run))
        (waiting, *_) = [
            each
            for each in opened_store.find_tasks(TaskFilter(state="pending"))
            if each.workflow_id == runs[0]
        ]
        evaluator.continue_step(waiting.step_id, {"answer": "so"})  # type: ignore[arg-type]
        evaluator.resume(WorkflowId(runs[0]))
        opened_store.save_logs(
            [LogDefinition(f"{number}", number, runs[0], message=f"line {number}") for number in range(3)]
        )
    afl("cancel", runs[2], "--store", store)
    return runs


def test_what_is_looked_at_is_the_same(afl: Afl, finished: list[str], store: str, server: str) -> None:
    done, failed, canceled = finished
    commands = [
        ["list"],
        ["list", "--json", "--limit", "2"],
        ["list", "--state", "failed"],
        ["list", "--before", failed],
        ["list", "--before", "nope"],
        ["show", done],
        ["show", done, "--json"],
        ["show", failed],
        ["show", failed[:20], "--json"],
        ["show"],
        ["show", "nope"],
        ["tasks", "--run", done, "--state", "completed", "--json"],
        ["tasks", "--run", "nope"],
        ["ps"],
        ["ps", "--json"],
        ["why"],
        ["why", failed],
        ["why", failed, "--json"],
        ["why", "nope"],
        ["logs", done],
        ["logs", "-f", done, "--json"],
        ["wait", done],
        ["wait", failed],
        ["wait", canceled, "--json"],
        ["schedules"],
        ["approvals"],
        ["approvals", "--json"],
        ["approvals", "show", "nope"],
        ["prune", "--older-than", "30d", "--dry-run", "--json"],
        ["turns", "list"],
        ["turns", "agents"],
        ["turns", "show"],
        ["turns", "stop", "nobody"],
        ["retry", done],
    ]
    for command in commands:
        near = afl(*command, "--store", store)
        far = afl(*command, "--server", server)
        told = [(_plain(each.out), _nowhere(each.err), each.code) for each in (near, far)]
        assert told[0] == told[1], command


def _plain(text: str) -> str:
    """Without what differs from one moment to the next."""
    return re.sub(r'("age_ms"|"ended_before"): \d+', r"\1: 0", text)


def _nowhere(text: str) -> str:
    """Without the place where nothing was found."""
    return re.sub(r" in (/|http://)\S+", " in PLACE", text)


def test_what_is_done_is_the_same(afl: Afl, sources: None, store: str, server: str) -> None:
    told: list[list[tuple[str, str, int]]] = []
    for where in (["--store", store], ["--server", server]):
        run = afl("submit", "quiz.afl", "--input", "question=how?", *where).out.strip()
        commands = [
            ["pause", run],
            ["pause", run, "--json"],
            ["unpause", run, "--budget-usd", "3"],
            ["cancel", run],
            ["retry", run],
            ["schedule", "quiz.afl", "--cron", "0 0 1 1 *", "--name", "new/year"],
            ["schedules", "--pause", "new/year"],
            ["schedules", "--unpause", "new/year", "--json"],
            ["schedules", "--remove", "new/year"],
            ["schedules", "--remove", "new/year"],
            ["submit", "quiz.afl", "--input", "nope=1"],
            ["prune", "--older-than", "1d"],
            ["cancel", "nope"],
        ]
        outcomes = [afl(*command, *where) for command in commands]
        told.append([(each.out.replace(run, "RUN"), _about(each.err, run), each.code) for each in outcomes])
    assert told[0] == told[1]


def _about(text: str, run: str) -> str:
    """Without the ids of runs and the moments that come from the clock."""
    lines = [line for line in text.replace(run, "RUN").splitlines() if not line.startswith("  ")]
    return re.sub(r"ended before .*", "ended before then", _nowhere("\n".join(lines)))


def test_a_run_is_awaited_at_a_server(afl: Afl, sources: None, server: str) -> None:
    run = afl("submit", "quiz.afl", "--server", server).out.strip()
    waited = afl("wait", run, "--timeout", "1ms", "--server", server)
    assert waited.code == 3 and "is still created" in waited.err


def test_the_server_may_stand_in_the_environment(
    afl: Afl, sources: None, store: str, server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_SERVER", server)
    run = afl("submit", "quiz.afl").out.strip()
    assert run in afl("list").out
    assert run in afl("list", "--store", store).out
    both = afl("list", "--store", store, "--server", server)
    assert both.code == 2 and "not both" in both.err


def test_a_server_that_is_not_there(afl: Afl) -> None:
    failed = afl("list", "--server", "http://127.0.0.1:1")
    assert failed.code == 1
    assert "no server answers at http://127.0.0.1:1" in failed.err


def test_a_password_in_the_address_is_not_shown(afl: Afl) -> None:
    assert "secret" not in afl("list", "--server", "http://me:secret@127.0.0.1:1").err


def test_a_server_that_demands_a_token(
    afl: Afl, sources: None, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(with_users(store)) as url:
        refused = afl("list", "--server", url)
        assert refused.code == 1 and "a token is needed" in refused.err
        monkeypatch.setenv("AFL_TOKEN", "wrong")
        failed = afl("list", "--server", url).err
        assert "the token is not known" in failed and "AFL_TOKEN" in failed
        monkeypatch.setenv("AFL_TOKEN", TOKENS[Role.VIEWER])
        assert afl("list", "--server", url).code == 0
        acted = afl("submit", "quiz.afl", "--server", url)
        assert acted.code == 1 and "viewer has the role viewer; submit run takes operator" in acted.err
        monkeypatch.setenv("AFL_TOKEN", TOKENS[Role.OPERATOR])
        assert afl("submit", "quiz.afl", "--server", url).code == 0


class _Stranger(BaseHTTPRequestHandler):
    """Another server: of an older version, or none of ours."""

    version = ""
    status = 404
    body = b"not here"

    def do_GET(self) -> None:
        self.send_response(self.status)
        if self.version:
            self.send_header("AFL-Version", self.version)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(
    ("version", "status", "body", "said"),
    [
        ("", 404, b"not here", "is not an AgentFlow server"),
        ("", 200, b"<html>", "is not an AgentFlow server"),
        ("", 302, b"", "is not an AgentFlow server"),
        ("", 413, b"<html>", "a proxy in front of"),
        ("9.9", 200, b'{"lines": []}', "the server is AgentFlow 9.9, this is"),
        (
            "9.9",
            404,
            b'{"error": {"code": "not-found", "message": "Not Found"}}',
            "the server is AgentFlow 9.9, this is",
        ),
        (
            "9.9",
            409,
            b'{"error": {"code": "of-the-future", "message": "No way."}}',
            "error[of-the-future]: No way.",
        ),
    ],
)
def test_another_server_is_told_from_ours(
    afl: Afl, version: str, status: int, body: bytes, said: str
) -> None:
    handler = type("Handler", (_Stranger,), {"version": version, "status": status, "body": body})
    with HTTPServer(("127.0.0.1", 0), handler) as other:
        thread = Thread(target=other.serve_forever, args=(0.01,))
        thread.start()
        try:
            failed = afl("list", "--server", f"http://127.0.0.1:{other.server_port}")
        finally:
            other.shutdown()
            thread.join()
    assert failed.code == 1
    assert said in failed.err
