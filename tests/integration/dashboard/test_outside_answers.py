"""Answers from outside the pages: after a defect, without a store, from the gate. They are like all others."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from support.dashboards import API, TOKENS, client_of, served, settings_for, with_users

from afl.client.store_client import StoreClient
from afl.kernel.errors import StoreUnavailable
from afl.operations import audit
from afl.operations.roles import Role

BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9"}
SECRET = "s3cret of a trace"


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """What every operation raises; a defect at first."""
    errors: list[Exception] = [RuntimeError(SECRET)]

    def fails(self: StoreClient, *_: Any, **__: Any) -> Any:
        raise errors[-1]

    monkeypatch.setattr(StoreClient, "call", fails)
    return errors


def check_safe(answer: httpx2.Response) -> None:
    headers = answer.headers
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Cache-Control"] == "no-store"
    assert headers["AFL-Version"]


def check_page(answer: httpx2.Response, status: int, *words: str) -> None:
    """A page in the dashboard's look, with its icon, and without a script."""
    check_safe(answer)
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, "text/html; charset=utf-8")
    assert '<link rel="icon" href="/static/mark.svg"' in answer.text and "/static/afl.css" in answer.text
    assert "<script" not in answer.text
    assert all(word in answer.text for word in words), answer.text


def test_a_defect_is_a_page_like_the_others(
    client: TestClient, failing: list[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    answer = client.get("/runs", headers=BROWSER)
    check_page(answer, 500, "Something broke", "internal server error", "defect")
    assert SECRET not in answer.text and SECRET in caplog.text
    assert "GET /runs failed" in caplog.text


@pytest.mark.parametrize("path", ["/health", "/runs/nope", "/nowhere"])
def test_a_refusal_is_a_page_for_browsers_alone(client: TestClient, path: str) -> None:
    method = "PUT" if path == "/health" else "GET"
    status = 405 if path == "/health" else 404
    told = client.request(method, path)
    assert (told.status_code, told.headers["Content-Type"]) == (status, "application/json")
    assert told.json()["error"]["message"]
    page = client.request(method, path, headers=BROWSER)
    assert (page.status_code, page.headers["Content-Type"]) == (status, "text/html; charset=utf-8")


def test_a_refusal_of_the_metrics_is_text(client: TestClient) -> None:
    told = client.put("/metrics")
    assert (told.status_code, told.text) == (405, "Method Not Allowed\n")
    assert set(told.headers["Allow"].split(", ")) == {"GET", "HEAD"}


def test_a_defect_of_the_api_is_json(client: TestClient, failing: list[Exception]) -> None:
    for headers in ({}, BROWSER):
        answer = client.get(f"{API}/runs", headers=headers)
        check_safe(answer)
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "defect")
        assert SECRET not in answer.text


def test_who_sent_much_hears_of_the_defect(store_url: str, failing: list[Exception]) -> None:
    """The body is taken before the answer: the connection would break otherwise."""
    with served(settings_for(store_url)) as address, httpx2.Client() as client:
        answer = client.post(f"{address}/runs/x/cancel", content=b" " * 900_000, headers=BROWSER)
    check_page(answer, 500, "Something broke")


def test_a_request_for_a_websocket_is_answered_without_a_warning(
    store_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket"}
    with served(settings_for(store_url)) as address, httpx2.Client() as client:
        assert client.get(f"{address}/health", headers=upgrade).json()["status"] == "ok"
    assert "WebSocket" not in capfd.readouterr().err


def test_a_store_that_is_away_is_a_page_too(client: TestClient, failing: list[Exception]) -> None:
    """The numbers beside the navigation come from the store, so a page with a navigation could not say it."""
    failing.append(StoreUnavailable("postgresql://afl:s3cret@db/afl does not answer"))
    check_page(client.get("/runs", headers=BROWSER), 503, "afl:***@db", "store-unavailable")


def test_what_the_gate_cannot_write_down_is_no_defect(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> None:
        raise StoreUnavailable("the store does not answer")

    with client_of(with_users(store_url)) as client:
        monkeypatch.setattr(audit, "note", away)
        answer = client.post(f"{API}/retry", json={})
    check_safe(answer)
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store-unavailable")


def test_a_refusal_of_the_gate_is_a_page_for_browsers(client: TestClient) -> None:
    check_page(
        client.get("/runs", headers={**BROWSER, "Host": "<b>evil"}), 403, "Not possible", "&lt;b&gt;evil"
    )
    crossing = {**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    check_page(client.post("/runs/x/cancel", headers=crossing), 403, "from another site")
    answer = client.get(f"{API}/runs", headers={**BROWSER, "Host": "evil"})
    check_safe(answer)
    assert answer.json()["error"]["code"] == "forbidden"


def test_what_is_too_large_is_a_page_for_browsers(store_url: str) -> None:
    with client_of(settings_for(store_url, max_payload_bytes=2_000)) as client:
        answer = client.post("/start/source", data={"source": "x" * 3_000}, headers=BROWSER)
    check_page(answer, 413, "larger than 2,000 bytes")


def test_the_icon_is_there_for_whoever_is_not_known(store_url: str) -> None:
    with client_of(with_users(store_url)) as client:
        answer = client.get("/favicon.ico", follow_redirects=True)
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/svg+xml")


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic x"}, BROWSER]
)
def test_a_scraper_without_a_token_is_told_so(store_url: str, headers: dict[str, str]) -> None:
    with client_of(with_users(store_url)) as client:
        answer = client.get("/metrics", headers=headers)
    check_safe(answer)
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.text.endswith("\n") and "<" not in answer.text


def test_a_scraper_with_a_token_gets_the_figures(store_url: str) -> None:
    with client_of(with_users(store_url), Role.VIEWER) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200 and "afl_part_up" in answer.text


@pytest.mark.parametrize("headers", [{"X-Fragment": "1"}, {"Accept": "text/event-stream"}])
def test_scripts_of_an_open_page_hear_that_the_session_is_over(
    store_url: str, headers: dict[str, str]
) -> None:
    """A login page in the place of a part of the page would be shown there."""
    with client_of(with_users(store_url)) as client:
        for path in ("/fragment/navigation", "/events?topic=runs"):
            assert client.get(path, headers=headers).status_code == 401
        assert client.get("/runs", headers=BROWSER).headers["Location"].startswith("/login")
        token = {"Authorization": f"Bearer {TOKENS[Role.VIEWER]}"}
        assert client.get("/fragment/navigation", headers={**headers, **token}).status_code == 200
