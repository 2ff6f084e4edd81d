"""Streams of events: they end with the session of whoever listens, and nobody takes those of the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx2
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from support.dashboards import API, SOURCE, TOKENS, client_of, served, with_users

from afl.dashboard import live, sessions, streams
from afl.dashboard.pages import turns
from afl.dashboard.sessions import Sessions
from afl.dashboard.streams import StreamLimit
from afl.operations.access import User, Users, hash_token
from afl.operations.roles import Role

SECONDS = 60.0
EVENTS = "/events?topic=runs"


@pytest.fixture
def address(store_url: str) -> Iterator[str]:
    with served(with_users(store_url)) as url:
        yield url


def of(role: Role) -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKENS[role]}"}


@asynccontextmanager
async def logged_in(address: str, role: Role) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address, timeout=SECONDS) as client:
        answer = await client.post("/login", data={"token": TOKENS[role]})
        assert answer.status_code == 303
        yield client


@asynccontextmanager
async def listening(
    client: httpx2.AsyncClient, path: str = EVENTS, **headers: str
) -> AsyncIterator[AsyncIterator[str]]:
    """The names of the events, behind the first."""
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        names = _names(answer)
        assert await anext(names) == "ready"
        yield names


async def _names(answer: httpx2.Response) -> AsyncIterator[str]:
    async with asyncio.timeout(SECONDS):
        async for line in answer.aiter_lines():
            if line.startswith("event: "):
                yield line.removeprefix("event: ")


async def next_change(client: httpx2.AsyncClient, names: AsyncIterator[str]) -> str:
    """Something changes until it is heard of: what was there before the first look is no change."""
    received = asyncio.create_task(_next(names))
    while not received.done():
        assert (await client.post(f"{API}/runs", json={"source": SOURCE})).status_code == 200
        await asyncio.wait([received], timeout=1.0)
    return await received


async def _next(names: AsyncIterator[str]) -> str:
    return await anext(names)


def test_a_logout_ends_the_streams_of_that_session_alone(address: str) -> None:
    async def story() -> None:
        async with (
            logged_in(address, Role.OPERATOR) as one,
            logged_in(address, Role.OPERATOR) as other,
            listening(one) as left,
            listening(one) as left_too,
            listening(other) as stays,
            listening(other, **of(Role.OPERATOR)) as by_token,
        ):
            assert (await one.post("/logout")).status_code == 303
            for ended in (left, left_too):
                assert [name async for name in ended] == ["leave"]
            for open_still in (stays, by_token):
                assert await next_change(other, open_still) == "change"

    asyncio.run(story())


def test_a_stream_ends_when_the_time_of_its_session_is_over(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SESSION_SECONDS", 1.0)

    async def story() -> list[str]:
        async with logged_in(address, Role.VIEWER) as client, listening(client) as names:
            return [name async for name in names]

    assert asyncio.run(story()) == ["leave"]


def test_streams_with_a_connection_of_their_own_end_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[str] = []

    async def endless(*_: object) -> AsyncGenerator[str, None]:
        try:
            yield "event: ready\ndata: {}\n\n"
            await asyncio.Event().wait()
        finally:
            closed.append("closed")

    async def stream(request: Request, name: str) -> Response:
        return streams.event_stream(request, endless())

    monkeypatch.setattr(turns, "stream_words", stream)

    async def story() -> list[str]:
        async with (
            logged_in(address, Role.VIEWER) as client,
            listening(client, "/turns/t1/words/ada") as names,
        ):
            await client.post("/logout")
            return [name async for name in names]

    assert asyncio.run(story()) == ["leave"]
    assert closed == ["closed"]


def test_each_user_has_streams_of_their_own(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "_MOST_LIVE_EACH", 1)
    monkeypatch.setattr(streams, "_MOST_LIVE", 2)

    async def story(address: str) -> None:
        async with httpx2.AsyncClient(base_url=address, timeout=SECONDS) as client:
            async with listening(client, **of(Role.VIEWER)):
                refused = await client.get(EVENTS, headers=of(Role.VIEWER))
                assert refused.status_code == 429 and refused.headers["Retry-After"]
                assert "viewer has 1 live pages open, the most that one user may have" in refused.text
                async with listening(client, **of(Role.OPERATOR)):
                    crowded = await client.get(EVENTS, headers=of(Role.ADMIN))
                    assert crowded.status_code == 503 and "of all users" in crowded.text
            async with asyncio.timeout(SECONDS):
                while (status := await _status(client)) != 200:
                    assert status == 429

    with served(with_users(store_url)) as address:
        asyncio.run(story(address))


async def _status(client: httpx2.AsyncClient) -> int:
    async with client.stream("GET", EVENTS, headers=of(Role.VIEWER)) as answer:
        return answer.status_code


def test_each_user_watches_only_so_much(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_MOST_WATCHED_EACH", 1)
    with client_of(with_users(store_url), Role.VIEWER) as client:
        answer = client.get("/events?topic=runs&topic=tasks")
    assert answer.status_code == 429 and "viewer watches 1 things already" in answer.text


def test_streams_that_end_are_counted_no_more() -> None:
    limit = StreamLimit("streams", most=3, most_each=2)
    with limit.taken("ada"), limit.taken("bob"):
        with limit.taken("ada"):
            with pytest.raises(HTTPException, match="ada has 2 streams open") as own:
                limit.check("ada")
            with pytest.raises(HTTPException, match="of all users") as every:
                limit.check("eve")
        limit.check("ada")
    assert (own.value.status_code, every.value.status_code) == (429, 503)
    assert not limit._taken


def test_a_session_that_has_to_go_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are only so many; the oldest goes, and what depends on it with it."""
    monkeypatch.setattr(sessions, "_MOST_SESSIONS", 1)
    user = User("ada", Role.VIEWER, hash_token("t"))
    registry, told = Sessions(Users([user]), lambda: 100.0), []
    first = registry.begin(user)
    with registry.lasting(first, lambda: told.append("over")) as seconds:
        assert seconds == sessions.SESSION_SECONDS
        second = registry.begin(user)
        assert told == ["over"]
        with registry.lasting(first, lambda: told.append("late")) as seconds:
            assert seconds == 0.0
    with registry.lasting(second, lambda: told.append("unheard")):
        pass
    registry.end(second)
    assert told == ["over"]
