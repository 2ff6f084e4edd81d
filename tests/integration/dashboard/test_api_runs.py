"""Runs over the HTTP API."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient
from support.dashboards import API, SOURCE, TOKENS, client_of, served, settings_for, with_users

from afl.client.http_client import HttpClient
from afl.operations.program.submission import submit_source
from afl.operations.roles import Role
from afl.operations.run.runs import opened
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import WorkflowId

MARKUP = "<img src=x onerror=alert(1)>"


def submit(client: TestClient, key: str = "", **body: object) -> str:
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post(f"{API}/runs", json={"source": SOURCE, **body}, headers=headers)
    assert answer.status_code == 200, answer.text
    run: str = answer.json()["run"]
    return run


def evaluate(client: TestClient, run: str) -> None:
    Evaluator(client.app.state.store).resume(WorkflowId(run))  # type: ignore[attr-defined]


def test_a_word_that_is_none_of_a_few_is_refused_with_those(client: TestClient) -> None:
    wanted = {"source": SOURCE, "cron": "@daily", "inputs": {"question": "how?"}, "catch_up": "some"}
    answer = client.post(f"{API}/schedules", json=wanted)
    assert answer.status_code == 422
    assert "catch_up: Invalid enum value 'some'; expected one of none, latest, all" in answer.text


def test_a_run_from_its_source_to_its_end(client: TestClient) -> None:
    run = submit(client, inputs={"question": "how?"}, name="quiz.afl")
    assert client.get(f"{API}/runs/{run}/wait").json()["timed_out"] is True
    evaluate(client, run)
    (task,) = client.get(f"{API}/tasks").json()
    assert (task["name"], task["run"]) == ("Ask", run)
    assert client.get(f"{API}/why", params={"name": run}).json()["code"]

    given = client.post(f"{API}/continue", json={"step": f"{run}/asked", "result": {"answer": "so"}})
    assert given.json()["changed"] is True
    evaluate(client, run)
    end = client.get(f"{API}/runs/{run}/wait", params={"timeout": 5}).json()
    assert (end["state"], end["outputs"]) == ("completed", {"answer": "so"})
    assert client.get(f"{API}/runs/-").json()["line"]["run"] == run
    for path, body in (("retry", {"name": run}), ("continue", {"step": f"{run}/asked", "result": {}})):
        late = client.post(f"{API}/{path}", json=body)
        assert (late.status_code, late.json()["error"]["code"]) == (409, "state-error")


def test_a_result_that_does_not_fit_is_refused_and_the_step_still_waits(client: TestClient) -> None:
    run = submit(client)
    evaluate(client, run)
    answer = client.post(f"{API}/continue", json={"step": f"{run}/asked", "result": {"answer": 7}})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "result-error")
    assert client.get(f"{API}/runs/{run}").json()["tree"]["run"]["waiting"] == 1


def test_pause_cancel_and_retry(client: TestClient) -> None:
    run = submit(client)
    evaluate(client, run)
    for verb, state in (("pause", "paused"), ("unpause", "running"), ("cancel", "canceled")):
        change = client.post(f"{API}/runs/{run}/{verb}").json()
        assert (change["state"], change["changed"]) == (state, True)
    assert client.post(f"{API}/runs/{run}/cancel").json()["changed"] is False
    assert client.post(f"{API}/retry", json={"name": run}).json()["run"] == run


def test_the_same_key_is_the_same_run_however_many_ask_at_once(store_url: str) -> None:
    with served(settings_for(store_url)) as url, ThreadPoolExecutor(8) as threads:
        client = HttpClient(url)
        asked = [threads.submit(client.call, submit_source, SOURCE, key="one") for _ in range(16)]
        assert len({each.result().run for each in asked}) == 1
        assert client.call(submit_source, SOURCE, key="two").run != asked[0].result().run
    with opened(settings_for(store_url)) as store:
        assert len(store.find_runs()) == 2


def test_a_key_that_comes_again_with_something_else_is_refused(client: TestClient) -> None:
    run = submit(client, "k", inputs={"question": "a"})
    assert submit(client, "k", inputs={"question": "a"}) == run
    other = client.post(f"{API}/runs", json={"source": SOURCE}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "run-exists")


def test_a_key_is_that_of_the_user_who_sends_it(store_url: str) -> None:
    """Two who count their submissions from 1 neither get nor hear of each other's runs."""
    body, found = {"source": SOURCE, "inputs": {"question": "a"}}, {}
    with client_of(with_users(store_url)) as client:
        assert (
            client.post(f"{API}/workflows", json={"source": SOURCE}, headers=_of(Role.ADMIN)).status_code
            == 200
        )
        for role in (Role.OPERATOR, Role.ADMIN):
            headers = {**_of(role), "Idempotency-Key": "1"}
            sent = [client.post(f"{API}/runs", json=body, headers=headers).json()["run"] for _ in range(2)]
            assert sent[0] == sent[1]
            found[role] = sent[0]
        other = {"inputs": {"question": "b"}}
        headers = {**_of(Role.ADMIN), "Idempotency-Key": "1"}
        refused = client.post(f"{API}/workflows/Quiz/start", json=other, headers=headers).json()["error"]
    assert found[Role.OPERATOR] != found[Role.ADMIN]
    assert found[Role.ADMIN] in refused["message"] and found[Role.OPERATOR] not in refused["message"]
    assert "key '1'" in refused["message"]


def _of(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


def test_pages_neither_lose_nor_repeat_a_run_while_others_come(client: TestClient) -> None:
    first = [submit(client) for _ in range(7)]
    seen: list[str] = []
    before = ""
    while True:
        page = client.get(f"{API}/runs", params={"limit": 2, "before": before}).json()
        seen += [each["run"] for each in page["runs"]]
        submit(client)
        before = page["next"]
        if not before:
            break
    assert seen == first[::-1]


def test_known_workflows_are_started_by_name(client: TestClient) -> None:
    assert client.get(f"{API}/workflows").json() == []
    assert client.post(f"{API}/workflows", json={"source": SOURCE}).json()["workflows"] == ["Quiz"]
    shown = client.get(f"{API}/workflows/Quiz").json()
    assert shown["signature"]["parameters"][0]["type"] == "String"
    started = client.post(f"{API}/workflows/Quiz/start", json={"inputs": {"question": "x"}}).json()
    assert client.get(f"{API}/runs/{started['run']}").json()["tree"]["run"]["inputs"] == {"question": "x"}
    answer = client.post(f"{API}/workflows/Quizz/start", json={})
    assert answer.status_code == 404 and "did you mean 'Quiz'" in answer.json()["error"]["message"]


def test_mistakes_in_a_source_come_with_their_lines(client: TestClient) -> None:
    found = client.post(f"{API}/compile", json={"source": "workflow W("}).json()
    assert found["valid"] is False and found["findings"][0]["line"] == 1
    refused = client.post(f"{API}/runs", json={"source": "workflow W("})
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (422, "compile-error")
    assert error["details"]["findings"][0]["line"] == 1 and error["hint"]


def test_schedules(client: TestClient) -> None:
    added = client.post(f"{API}/schedules", json={"source": SOURCE, "cron": "@daily", "name": "a/b"})
    assert added.json()["workflow"] == "Quiz"
    assert client.post(f"{API}/schedules/a%2Fb/pause", json={}).json()["paused"] is True
    assert client.delete(f"{API}/schedules/a%2Fb").status_code == 200
    assert client.get(f"{API}/schedules").json() == []


def test_markup_comes_back_as_the_data_it_is(client: TestClient) -> None:
    run = submit(client, inputs={"question": MARKUP})
    answer = client.get(f"{API}/runs/{run}")
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.json()["tree"]["run"]["inputs"] == {"question": MARKUP}
    refused = client.get(f"{API}/runs/{MARKUP}")
    assert refused.headers["Content-Type"] == "application/json"
    assert MARKUP in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/runs/nope", None, 404, "unknown-run"),
        ("GET", "/nope", None, 404, "not-found"),
        ("PUT", "/runs", None, 405, "method-not-allowed"),
        ("GET", "/runs?limit=0", None, 422, "request-error"),
        ("GET", "/runs?limit=many", None, 422, "request-error"),
        ("GET", "/runs?nope=1", None, 422, "request-error"),
        ("GET", "/runs?state=failed&state=completed", None, 422, "request-error"),
        ("POST", "/runs", {}, 422, "request-error"),
        ("POST", "/runs", [], 422, "request-error"),
        ("POST", "/runs", {"source": 7}, 422, "request-error"),
        ("POST", "/runs/x/cancel", {"by": "somebody else"}, 422, "request-error"),
        ("POST", "/retry", {"name": "nope"}, 404, "unknown-subject"),
        ("GET", "/why?name=%00", None, 422, "request-error"),
    ],
)
def test_every_refusal_has_the_same_shape(
    client: TestClient, method: str, path: str, body: object, status: int, code: str
) -> None:
    answer = client.request(method, API + path, json=body)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) == {"error"}
    assert set(answer.json()["error"]) == {"code", "message", "hint", "details"}
    assert answer.json()["error"]["code"] == code


def test_what_is_no_json_is_refused(client: TestClient) -> None:
    for kind, data in (("application/json", b"{"), ("application/json", b'"\xff"'), ("text/plain", b"{}")):
        answer = client.post(f"{API}/runs", content=data, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "request-error")


def test_a_store_that_is_away_is_said_without_its_password(client: TestClient) -> None:
    answer = client.get(f"{API}/messages/queues")
    error = answer.json()["error"]
    assert answer.status_code == 503 and error["hint"]


def test_the_name_of_a_source_is_bounded(client: TestClient) -> None:
    for body in ({"name": "x" * 513}, {"libraries": [{"text": "", "name": "x" * 513}]}):
        answer = client.post(f"{API}/runs", json={"source": SOURCE, **body})
        assert (answer.status_code, "name" in answer.text) == (422, True), answer.text
    assert submit(client, name="x" * 512)
