"""Who may do what: every operation of the catalog, asked by everybody. Made from the table, so none is forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from support.dashboards import API, TOKENS, client_of, with_users

from afl.operations.catalog import PUBLIC
from afl.operations.operation import Operation
from afl.operations.roles import Role


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    folder: Path = tmp_path_factory.mktemp("roles")
    closed = "redis://127.0.0.1:1/0"  # nobody listens there: an answer comes at once
    with client_of(with_users(f"sqlite:///{folder}/afl.db", redis=closed)) as client:
        yield client


def ask(client: TestClient, operation: Operation, token: str | None) -> int:
    """The status; the arguments are of no use, so what is let through is refused for another reason."""
    path = re.sub(r"{\w+}", "nothing", operation.path)
    headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
    answer = client.request(operation.method, API + path, params={"nonsense": "1"}, headers=headers)
    return answer.status_code


def audited(client: TestClient) -> list[tuple[str, str, str]]:
    headers = {"Authorization": f"Bearer {TOKENS[Role.ADMIN]}"}
    page = client.get(f"{API}/audit", params={"limit": 1000}, headers=headers).json()
    return [(each["who"], each["operation"], each["outcome"]) for each in page["entries"]]


@pytest.mark.parametrize("operation", PUBLIC, ids=lambda each: each.name)
def test_who_may_do_it(guarded: TestClient, operation: Operation) -> None:
    assert ask(guarded, operation, None) == 401
    for role in Role:
        before = audited(guarded)
        status = ask(guarded, operation, TOKENS[role])
        allowed = role.allows(operation.role)
        assert (status != 403) == allowed, (role, status)
        assert status != 401
        refused = [] if allowed or not operation.is_action else [(str(role), operation.name, "refused")]
        if not allowed:
            assert audited(guarded) == refused + before


def test_every_action_takes_more_than_a_viewer() -> None:
    """Only what changes nothing is a viewer's: reading, and looking at a source."""
    looks = {each.name for each in PUBLIC if each.role is Role.VIEWER}
    assert {each.name for each in PUBLIC if each.method != "GET" and each.name in looks} == {
        "compile",
        "preview_answers",
        "source_form",
        "wait_for_any",
    }


def test_a_wrong_token_is_nobodys(guarded: TestClient) -> None:
    answer = guarded.get(f"{API}/runs", headers={"Authorization": "Bearer wrong"})
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json()["error"]["code"] == "unauthenticated"


@pytest.mark.parametrize("path", ["/", "/runs", "/audit", "/events?topic=runs", "/search?q=x"])
def test_nobody_sees_a_page(guarded: TestClient, path: str) -> None:
    answer = guarded.get(path)
    assert answer.status_code == 303
    assert answer.headers["Location"].startswith("/login?next=%2F")
    assert answer.text == ""


def test_nobody_acts_on_a_page(guarded: TestClient) -> None:
    assert guarded.post("/runs/x/cancel").status_code == 401


def test_what_needs_no_token_tells_nothing(guarded: TestClient) -> None:
    assert set(guarded.get("/health").json()) == {"status", "version"}
    assert guarded.get("/static/afl.css").status_code == 200
    assert guarded.get(f"{API}/openapi.json").status_code == 401
