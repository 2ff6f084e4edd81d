"""The gate: names, sites, tokens, sessions, sizes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.dashboards import API, BASE, TOKENS, client_of, settings_for, with_users

from afl.dashboard import app
from afl.dashboard.sessions import COOKIE, SESSION_SECONDS, Sessions
from afl.kernel.errors import Throttled, Unauthenticated
from afl.operations.access import RateLimiter, User, Users, hash_token
from afl.operations.roles import Role

ADMIN = {"Authorization": f"Bearer {TOKENS[Role.ADMIN]}"}


@pytest.fixture
def guarded(store_url: str) -> Iterator[TestClient]:
    with client_of(with_users(store_url)) as client:
        yield client


def log_in(client: TestClient, token: str, target: str = "/runs") -> int:
    return client.post("/login", data={"token": token, "next": target}).status_code


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1.evil.example", "", "[::1"])
def test_a_name_that_is_not_of_the_loopback_is_refused(client: TestClient, host: str) -> None:
    """A page of evil.example, whose name now points to 127.0.0.1, must not reach a server that asks for no token."""
    answer = client.get(f"{API}/runs", headers={"Host": host})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8765", "[::1]:8765", "LOCALHOST:1"])
def test_the_names_of_the_loopback_are_good(client: TestClient, host: str) -> None:
    assert client.get(f"{API}/runs", headers={"Host": host}).status_code == 200


def test_names_can_be_given(store_url: str) -> None:
    with client_of(settings_for(store_url, dashboard_hosts="afl.example, other.example")) as client:
        for host, status in (("afl.example", 200), ("other.example:80", 200), ("evil.example", 403)):
            assert client.get(f"{API}/runs", headers={"Host": host}).status_code == status


@pytest.mark.parametrize(
    "host", ["x/login?", "x/static/", "x/health#", "x/login?/metrics", "/login?", "a@b/health?"]
)
def test_the_host_header_does_not_say_what_is_asked_for(guarded: TestClient, host: str) -> None:
    for path in ("/metrics", f"{API}/runs", "/runs"):
        assert guarded.get(path, headers={"Host": host}).status_code in (303, 401, 403), path


def test_nobody_looks_at_the_address_that_the_host_header_is_part_of() -> None:
    """Whether it can mislead depends on the version of Starlette."""
    sources = Path(inspect.getfile(app)).parent.rglob("*.py")
    assert [each.name for each in sources if "request.url" in code_of(each.read_text())] == []


def code_of(source: str) -> str:
    """A source without its comments and docstrings."""
    return ast.unparse(_WithoutTexts().visit(ast.parse(source)))


class _WithoutTexts(ast.NodeTransformer):
    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return ast.Pass() if isinstance(node.value, ast.Constant) else node


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_another_site_cannot_act(client: TestClient, headers: dict[str, str]) -> None:
    for path in (f"{API}/runs/x/cancel", "/runs/x/cancel", "/login", "/logout"):
        answer = client.post(path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    entries = client.get(f"{API}/audit").json()["entries"]
    assert {(each["who"], each["outcome"]) for each in entries} == {("anonymous", "refused")}
    assert len(entries) == 4


def test_another_site_cannot_read(client: TestClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get(f"{API}/runs", headers=headers).status_code == 403
    assert client.get("/runs", headers=headers).status_code == 403
    assert "Access-Control-Allow-Origin" not in client.get(f"{API}/runs").headers


def test_a_link_from_another_site_opens_the_page(client: TestClient) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert client.get("/runs", headers=headers).status_code == 200
    assert client.get(f"{API}/runs", headers=headers).status_code == 403


def test_our_own_pages_can_act(client: TestClient) -> None:
    headers = {"Origin": BASE, "Sec-Fetch-Site": "same-origin"}
    assert client.post(f"{API}/runs/x/cancel", headers=headers).status_code == 404


def test_every_answer_carries_what_keeps_browsers_from_harm(client: TestClient) -> None:
    for path in ("/runs", f"{API}/runs", "/nowhere", "/login", f"{API}/nowhere"):
        headers = client.get(path).headers
        policy = headers["Content-Security-Policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"
        assert headers["Cache-Control"] == "no-store"


def test_more_than_is_taken_is_refused(store_url: str) -> None:
    with client_of(settings_for(store_url, max_payload_bytes=2_000)) as client:
        body = {"source": "x" * 3_000}
        answer = client.post(f"{API}/runs", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too-large")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert client.post("/login", data=body).status_code == 413


def test_logging_in_and_out(guarded: TestClient) -> None:
    assert guarded.get("/login?next=/runs").status_code == 200
    answer = guarded.post("/login", data={"token": TOKENS[Role.OPERATOR], "next": "/runs?state=failed"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/runs?state=failed")
    cookie = answer.headers["Set-Cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert TOKENS[Role.OPERATOR] not in cookie
    assert guarded.get("/runs").status_code == 200
    assert guarded.get(f"{API}/audit").status_code == 403

    kept = guarded.cookies[COOKIE]
    assert guarded.post("/logout").status_code == 303
    assert guarded.get("/runs").status_code == 303
    guarded.cookies.set(COOKIE, kept)
    assert guarded.get("/runs").status_code == 303

    entries = guarded.get(f"{API}/audit", headers=ADMIN).json()["entries"]
    assert [(each["who"], each["operation"]) for each in entries if each["outcome"] == "done"] == [
        ("operator", "logout"),
        ("operator", "login"),
    ]


@pytest.mark.parametrize("target", ["//evil.example", "https://evil.example", "/\\evil.example", "x", ""])
def test_a_login_leads_to_no_other_site(guarded: TestClient, target: str) -> None:
    answer = guarded.post("/login", data={"token": TOKENS[Role.VIEWER], "next": target})
    assert answer.headers["Location"] == "/"


def test_who_guesses_has_to_wait(guarded: TestClient) -> None:
    assert [log_in(guarded, f"guess-{number}") for number in range(10)] == [401] * 10
    assert log_in(guarded, TOKENS[Role.ADMIN]) == 429
    throttled = guarded.get(f"{API}/runs", headers=ADMIN)
    assert (throttled.status_code, throttled.headers["Retry-After"]) == (429, "60")
    assert guarded.get("/login").status_code == 200


def test_guesses_are_noted_but_do_not_fill_the_log(store_url: str) -> None:
    with client_of(with_users(store_url)) as client:
        for number in range(30):
            client.post(f"{API}/runs/x/cancel", headers={"Authorization": f"Bearer {number}"})
        client.post("/login", data={"token": "another"})
    with client_of(with_users(store_url), Role.ADMIN) as client:
        entries = client.get(f"{API}/audit").json()["entries"]
    assert len(entries) == 10
    assert {(each["who"], each["outcome"]) for each in entries} == {("anonymous", "refused")}


def test_a_throttle_forgets() -> None:
    now = [0.0]
    throttle = RateLimiter(2, 60.0, lambda: now[0])
    assert [throttle.add("a"), throttle.add("a"), throttle.add("a")] == [True, True, False]
    assert throttle.add("b") and not throttle.is_full("b")
    now[0] = 61.0
    assert throttle.add("a")


def test_a_session_ends() -> None:
    now = [0.0]
    user = User("ada", Role.VIEWER, hash_token("t"))
    sessions = Sessions(Users([user]), lambda: now[0])
    cookie = sessions.begin(sessions.check("t", "here"))
    assert sessions.session(cookie) == user
    now[0] = SESSION_SECONDS + 1.0
    with pytest.raises(Unauthenticated):
        sessions.session(cookie)


def test_the_right_token_is_not_looked_at_after_too_many_wrong_ones() -> None:
    sessions = Sessions(Users([User("ada", Role.VIEWER, hash_token("t"))]), lambda: 0.0)
    for _ in range(10):
        with pytest.raises(Unauthenticated):
            sessions.check("wrong", "here")
    with pytest.raises(Throttled):
        sessions.check("t", "here")
    assert sessions.check("t", "there").name == "ada"
