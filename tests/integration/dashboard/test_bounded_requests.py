"""What a request costs grows with its length and no faster, whatever it is made of and whoever sends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from starlette.testclient import TestClient
from support.dashboards import API, client_of, settings_for, with_users
from support.work import SIZES, assert_bounded

from afl.kernel.error_text import MOST_CHARACTERS
from afl.operations.roles import Role

HEADERS = SIZES[:2]  # a server takes no more than 64 KiB of them
JSON = {"Content-Type": "application/json"}


@pytest.fixture
def guarded(store_url: str) -> Iterator[TestClient]:
    with client_of(with_users(store_url)) as client:
        yield client


@pytest.fixture
def viewer(store_url: str) -> Iterator[TestClient]:
    with client_of(with_users(store_url), Role.VIEWER) as client:
        yield client


@pytest.mark.parametrize("piece", ["a", "a.", "://", ":", "[", "%", "@"])
@pytest.mark.parametrize("name", ["Host", "Origin", "Authorization", "Accept"])
def test_headers(guarded: TestClient, client: TestClient, name: str, piece: str) -> None:
    for each in (guarded, client):
        assert_bounded(
            lambda text, each=each: each.post(f"{API}/compile", headers={name: text}),
            lambda size: piece * (size // len(piece)),
            HEADERS,
        )


@pytest.mark.parametrize("piece", ["\\", '\\"', "\\1", ";", "a=", '"', "a;"])
def test_cookies(guarded: TestClient, piece: str) -> None:
    assert_bounded(
        lambda text: guarded.get("/login", headers={"Cookie": f'afl-theme="{text}"'}),
        lambda size: piece * (size // len(piece)),
        HEADERS,
    )


BODIES: dict[str, Callable[[int], str]] = {
    "a long name": lambda size: f'{{"{"a" * size}": 1}}',
    "many names": lambda size: "{" + ",".join(f'"a{n}":1' for n in range(size // 8)) + "}",
    "deep lists": lambda size: "[" * size,
    "deep objects": lambda size: '{"a":' * (size // 5),
    "a long number": lambda size: f'{{"source": {"9" * size}}}',
    "a long text": lambda size: f'{{"source": "{"(" * size}"}}',
    "an address": lambda size: f'{{"source": "postgres://{"a:" * (size // 2)}"}}',
    "escapes": lambda size: f'{{"source": "{chr(92)}u0041{chr(92) * 2 * (size // 2)}"}}',
    "no JSON": lambda size: "a" * size,
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies(viewer: TestClient, body: str) -> None:
    def send(text: str) -> None:
        answer = viewer.post(f"{API}/compile", content=text, headers=JSON)
        assert answer.status_code in (200, 422) and len(answer.content) < 3 * MOST_CHARACTERS

    assert_bounded(send, BODIES[body])


@pytest.mark.parametrize("piece", ["a", "%", "_", "/", "a ", "\\", "*"])
def test_searches(viewer: TestClient, piece: str) -> None:
    def search(text: str) -> None:
        assert viewer.get(f"{API}/search", params={"text": text}).status_code in (200, 422)

    assert_bounded(search, lambda size: piece * (size // len(piece)), (1_024, 16_384))


def test_an_error_is_cut_where_it_is_answered(store_url: str) -> None:
    with client_of(settings_for(store_url)) as client:
        answer = client.post(f"{API}/compile", json={"a" * 100_000: 1})
        assert answer.status_code == 422
        assert "more characters)" in answer.json()["error"]["message"]
        page = client.get("/tasks", params={"run": "x" * 50_000})
        assert "more characters)" in page.text
