"""Streams of server-sent events that end in order, whenever the browser goes or its session ends.

A response that is cut off is canceled for good: nothing in it may wait any more, not even for a connection to be
closed. So whatever has connections runs in a task of its own, which is told to end and takes its time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager, suppress
from typing import Generic, TypeVar

from anyio import CancelScope, current_time, move_on_after
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from afl.dashboard.sessions import Sessions

T = TypeVar("T")
_AHEAD = 100
_MOST_LIVE, _MOST_LIVE_EACH = 1_000, 200
_MOST_LINES, _MOST_LINES_EACH = 200, 40
_FAREWELL_SECONDS = 1.0  # for a browser that takes nothing any more
_RETRY = {"Retry-After": "10"}
_LEAVE = b"event: leave\ndata: {}\n\n"

_ending: set[asyncio.Task[None]] = set()  # the loop itself only knows its tasks weakly


class StreamLimit:
    """How many streams of a kind may be open, in all and for each user."""

    def __init__(self, what: str, most: int, most_each: int) -> None:
        self._what = what
        self._most = most
        self._most_each = most_each
        self._taken: Counter[str] = Counter()

    def check(self, user: str) -> None:
        """HTTPException 429 at the limit of the user, 503 at the limit of all."""
        if self._taken[user] >= self._most_each:
            raise HTTPException(429, self.too_many(user), _RETRY)
        if self._taken.total() >= self._most:
            raise HTTPException(
                503, f"too many {self._what} are open at once: {self._most}, of all users", _RETRY
            )

    def too_many(self, user: str) -> str:
        """The text of the refusal for one user."""
        return f"{user} has {self._most_each} {self._what} open, the most that one user may have; close some of them"

    @contextmanager
    def taken(self, user: str) -> Iterator[None]:
        """Count one open stream."""
        self._taken[user] += 1
        try:
            yield
        finally:
            self._taken[user] -= 1
            if not self._taken[user]:
                del self._taken[user]


def live_page_limit() -> StreamLimit:
    """For pages that refresh themselves."""
    return StreamLimit("live pages", _MOST_LIVE, _MOST_LIVE_EACH)


def line_stream_limit() -> StreamLimit:
    """For lines and words as they come: each has a connection of its own to some server."""
    return StreamLimit("streams", _MOST_LINES, _MOST_LINES_EACH)


class EventStream(StreamingResponse):
    """Events for as long as the browser listens and its session lasts; the last one then says that it is over."""

    def __init__(self, request: Request, events: AsyncGenerator[str, None], limit: StreamLimit) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._events = events
        self._limit = limit
        self._user: str = user_of(request)
        self._session: str = request.state.session
        self._sessions: Sessions = request.app.state.sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        with self._limit.taken(self._user):
            async with aclosing(self._events):
                with CancelScope() as life, self._session_of(life):
                    await super().__call__(scope, receive, noted)
        if life.cancelled_caught:
            if not begun:
                raise HTTPException(401, "the session has ended")
            with move_on_after(_FAREWELL_SECONDS):
                await send({"type": "http.response.body", "body": _LEAVE, "more_body": False})

    @contextmanager
    def _session_of(self, life: CancelScope) -> Iterator[None]:
        """The life ends with the session, by a logout or by its time; without a session it has no end."""
        if not self._session:
            yield
            return
        loop = asyncio.get_running_loop()

        def farewell() -> None:
            with suppress(RuntimeError):  # the loop is closed, and the browser gone
                loop.call_soon_threadsafe(life.cancel)

        with self._sessions.lasting(self._session, farewell) as seconds:
            life.deadline = current_time() + seconds
            yield


def user_of(request: Request) -> str:
    """Who asks."""
    name: str = request.state.client.caller.name
    return name


def event_stream(request: Request, events: AsyncGenerator[str, None]) -> EventStream:
    """The response of a stream that has a connection of its own to some server."""
    limit: StreamLimit = request.app.state.line_stream_limit
    limit.check(user_of(request))
    if len(_ending) >= _MOST_LINES:  # those of browsers that went, while their connections are being closed
        raise HTTPException(503, "too many streams are open at once", _RETRY)
    return EventStream(request, events, limit)


class _End(Generic[T]):
    """The last of a source: how it ended."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error


async def apart(source: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """What a source gives, which runs in a task of its own; its error is raised here."""
    queue: asyncio.Queue[T | _End[T]] = asyncio.Queue(_AHEAD)
    task = asyncio.create_task(_pump(source, queue))
    _ending.add(task)
    task.add_done_callback(_ending.discard)
    try:
        while True:
            item = await queue.get()
            if not isinstance(item, _End):
                yield item
            elif item.error is not None:
                raise item.error
            else:
                return
    finally:
        task.cancel()


async def _pump(source: AsyncGenerator[T, None], queue: asyncio.Queue[T | _End[T]]) -> None:
    try:
        async with aclosing(source) as items:
            async for item in items:
                await queue.put(item)
    except Exception as error:  # whoever reads raises it
        await queue.put(_End(error))
    else:
        await queue.put(_End())
