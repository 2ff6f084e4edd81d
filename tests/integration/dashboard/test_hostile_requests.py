"""What nobody sends by accident: it is refused or left out, and never an error of the server, or its end."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient
from support.dashboards import API, SOURCE, TOKENS, client_of, served, settings_for, with_users

from afl.client.store_client import StoreClient
from afl.dashboard import live
from afl.dashboard import live as lookout
from afl.dashboard.live import BackgroundPoll, Sources
from afl.dashboard.rendering import FLASH_COOKIE
from afl.kernel.errors import StoreError
from afl.operations.operation import Needs
from afl.operations.parameters import LONGEST_SOURCE
from afl.operations.roles import Role

SECONDS = 60.0
MANY_DIGITS = "9" * 5_000


@pytest.fixture
def run(client: TestClient) -> str:
    return str(client.post(f"{API}/runs", json={"source": SOURCE}).json()["run"])


def test_a_source_that_would_keep_the_compiler_busy_is_not_taken(store_url: str) -> None:
    """Compiling takes no role: what anybody may send has to be small enough."""
    source = "(" * (LONGEST_SOURCE + 1)
    with client_of(with_users(store_url), Role.VIEWER) as client:
        for path in ("compile", "forms"):
            assert client.post(f"{API}/{path}", json={"source": source}).status_code == 422
        page = {"Accept": "text/html"}
        answer = client.post("/start/source", data={"source": source}, headers=page)
        assert answer.status_code in (400, 422) and "Not possible" in answer.text


def test_an_origin_that_is_no_address_is_another_site(client: TestClient) -> None:
    answer = client.post("/runs/x/cancel", headers={"Origin": "http://["})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")


@pytest.mark.parametrize("number", [MANY_DIGITS, "²", "-1", "1e3", ""])
def test_numbers_in_addresses_of_pages(client: TestClient, run: str, number: str) -> None:
    for path, name in (
        ("/tasks", "skip"),
        ("/turns", "skip"),
        ("/audit", "before"),
        (f"/runs/{run}?view=log", "after"),
        (f"/runs/{run}/steps/0/asked/%23", "after"),
    ):
        assert client.get(path, params={"view": "log", name: number}).status_code == 200, path


@pytest.mark.parametrize("path", ["x", "/", "@x", "0/asked/?x", "0/asked/7", "0/#/x", "0" + "/#" * 2_000])
def test_a_place_that_the_program_does_not_have(client: TestClient, run: str, path: str) -> None:
    answer = client.get(f"{API}/runs/{run}/place", params={"path": path})
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "unknown-place")


@pytest.mark.parametrize("query", ["turns?limit=-1", "turns?skip=-1", "tasks?skip=-1", "tasks?skip=99999999"])
def test_numbers_of_the_api_have_bounds(client: TestClient, query: str) -> None:
    assert client.get(f"{API}/{query}").status_code == 422


@pytest.mark.parametrize("message", [b"1", b'"x"', b"[1]", b"[" * 3_000, b"{}", b"\xff"])
def test_a_message_that_is_none_of_ours_is_not_shown(client: TestClient, message: bytes) -> None:
    client.cookies.set(FLASH_COOKIE, base64.urlsafe_b64encode(message).decode())
    assert client.get("/runs").status_code == 200


@pytest.mark.parametrize("page", ["http://[", "http://x/\\evil.example", "http://x//evil.example", "evil"])
def test_the_theme_leads_back_to_a_page_of_ours(client: TestClient, page: str) -> None:
    answer = client.post("/theme", data={"theme": "dark"}, headers={"Referer": page})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/runs")


def test_a_message_shows_no_password(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: StoreClient, *_: Any, **__: Any) -> Any:
        raise StoreError("cannot reach postgresql://afl:s3cret@db/afl")

    monkeypatch.setattr(StoreClient, "call", fails)
    answer = client.post("/runs/x/cancel")
    kind, text = json.loads(base64.urlsafe_b64decode(answer.cookies[FLASH_COOKIE]))
    assert (kind, text) == ("bad", "cannot reach postgresql://afl:***@db/afl")


def test_who_is_refused_hears_it_though_much_was_sent(store_url: str) -> None:
    """A server that closes while the other side still writes is a broken connection, and its answer lost."""
    with served(with_users(store_url, max_payload_bytes=2_000_000)) as address, httpx2.Client() as client:
        for token, size, status in (
            ("wrong", 1_900_000, 401),
            (TOKENS[Role.VIEWER], 1_900_000, 403),
            (TOKENS[Role.OPERATOR], 3_000_000, 413),
        ):
            answer = client.post(
                f"{address}{API}/runs",
                content=b" " * size,
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            assert answer.status_code == status


def test_what_is_refused_says_of_what(store_url: str) -> None:
    with client_of(with_users(store_url), Role.VIEWER) as client:
        client.post(f"{API}/runs/some-run/cancel")
        client.post(f"{API}/runs/some%00run/cancel")
    with client_of(with_users(store_url), Role.ADMIN) as client:
        entries = client.get(f"{API}/audit").json()["entries"]
    assert [each["subject"] for each in entries] == ["some\N{REPLACEMENT CHARACTER}run", "some-run"]


def test_a_part_that_hangs_does_not_hold_up_the_others(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    provided = StoreClient._provided

    def hangs(self: StoreClient, needs: Needs) -> AbstractContextManager[Any]:
        if needs is Needs.REDIS:
            assert go_on.wait(SECONDS)
        return provided(self, needs)

    monkeypatch.setattr(StoreClient, "_provided", hangs)
    with ThreadPoolExecutor(60) as pool:
        hanging = [pool.submit(client.get, f"{API}/breakers") for _ in range(50)]
        try:
            assert pool.submit(client.get, "/runs").result(SECONDS / 2).status_code == 200
            assert not any(each.done() for each in hanging)
        finally:
            go_on.set()


def test_only_so_much_is_watched(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_WATCHED", 1)
    answer = client.get("/events?topic=runs&topic=tasks")
    assert answer.status_code == 503 and "too many pages" in answer.text


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The subjects that have a thread of their own; two may."""
    monkeypatch.setattr(lookout, "MOST_THREADS", 2)
    yield []


def test_only_so_many_are_looked_at_by_a_thread_of_their_own(
    client: TestClient, store_url: str, watched: list[str]
) -> None:
    over = threading.Event()

    class Opened:
        def __enter__(self) -> Any:
            watched.append(threading.current_thread().name)
            assert over.wait(SECONDS)
            return lambda subject: subject

        def __exit__(self, *_: object) -> None:
            return None

    looking = BackgroundPoll(lambda sources: Opened(), every_seconds=0.01)
    sources = Sources(client.app.state.store, settings_for(store_url))  # type: ignore[attr-defined]
    try:
        seen = [looking.see(sources, f"turn-{number}") for number in range(10)]
    finally:
        over.set()
    assert seen[:2] == [None, None] and None not in seen[2:]
    assert len(watched) <= 2
