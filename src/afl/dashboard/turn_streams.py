"""The events of turns as server-sent events. All streams of a server share one connection to the store."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.streams import EventStream, StreamLimit, user_of
from afl.kernel.settings import Settings
from afl.operations.turn.turn_store import TurnStore, opened
from afl.operations.turn.turns import find_turn
from afl.turns.agents import Agents
from afl.turns.model import TurnRef
from afl.turns.turn_events import AgentEvent, AgentEventPage, EventKind, EventPosition, read_turn_page

_MOST = 2_000  # of all users, and of one: a back end with many users has one token
_COMMENT_SECONDS = 15.0  # so that proxies and dead peers are noticed
COMMENT = ": still here\n\n"


class TurnStreams:
    """The agents of the store, opened when the first stream begins; and how many streams there may be."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._agents: Agents | None = None
        self.limit = StreamLimit("streams of turns", _MOST, _MOST)

    async def agents(self) -> Agents:
        """The agents; StoreUnavailable if there is no store."""
        async with self._opening:
            if self._agents is None:
                self._agents = await self._stack.enter_async_context(opened(TurnStore(self._settings)))
            return self._agents

    async def find(self, name: str) -> TurnRef:
        """A turn by its id, or by its agent; InputError if there is none."""
        agents = await self.agents()
        return await agents.engine.database.run("read", lambda tx: find_turn(tx, agents.project, name))

    async def close(self) -> None:
        await self._stack.aclose()


def streams_of(request: Request) -> TurnStreams:
    """Those of the server."""
    found: TurnStreams = request.app.state.turn_streams
    return found


async def stream_turn(request: Request, name: str, after: str) -> Response:
    """The events of a turn after a position; each event's id is its position.

    204 after the last one: a browser connects again whenever a stream ends, until it is told so.
    """
    streams = streams_of(request)
    streams.limit.check(user_of(request))
    turn, agents = await streams.find(name), await streams.agents()
    if after:
        page = await _page(agents, turn, EventPosition.of(after), 1)
        if page.over and page.is_empty:
            return Response(status_code=204)
    return EventStream(request, sent(agents.events(turn, after=after), AgentEvent.as_sse), streams.limit)


async def stream_words(request: Request, name: str) -> EventStream:
    """What the model of a turn says in the step under way and those that follow, for its transcript."""
    streams = streams_of(request)
    streams.limit.check(user_of(request))
    turn, agents = await streams.find(name), await streams.agents()
    page = await _page(agents, turn, EventPosition(), _MOST)
    after = request.headers.get("Last-Event-ID") or _step_under_way(page)
    return EventStream(request, sent(agents.events(turn, after=after), _words), streams.limit)


async def _page(agents: Agents, turn: TurnRef, after: EventPosition, limit: int) -> AgentEventPage:
    return await agents.engine.database.run(
        "read", lambda tx: read_turn_page(tx, turn.project_id, turn.agent_turn_id, after, limit)
    )


def _step_under_way(page: AgentEventPage) -> str:
    """The position at which the step began whose text is not in the transcript yet."""
    last = page.events[-1] if page.events else None
    if last is None or last.kind != EventKind.TEXT:
        return page.position
    return str(replace(EventPosition.of(last.position), said=0))


def _words(event: AgentEvent) -> str:
    """Text while it comes; once it is in a card, the transcript has it."""
    if event.ends_turn:
        return "event: over\ndata: {}\n\n"
    if event.kind in (EventKind.MESSAGE, EventKind.STEP):
        return f"id: {event.position}\nevent: stored\ndata: {{}}\n\n"
    if event.kind != EventKind.TEXT or EventPosition.of(event.position).done:
        return ""
    return f"id: {event.position}\nevent: words\ndata: {json.dumps(event.text)}\n\n"


async def sent(
    source: AsyncGenerator[AgentEvent, None], render: Callable[[AgentEvent], str]
) -> AsyncGenerator[str, None]:
    """What a source gives as text, and a comment whenever it gives nothing for a while.

    A response that is cut off may not wait any more, so the source is canceled and left to end by itself.
    """
    pending: asyncio.Future[AgentEvent | None] | None = None
    try:
        while True:
            pending = pending or asyncio.ensure_future(anext(source, None))
            done, _ = await asyncio.wait([pending], timeout=_COMMENT_SECONDS)
            if not done:
                yield COMMENT
                continue
            event, pending = pending.result(), None
            if event is None:
                return
            if text := render(event):
                yield text
    finally:
        if pending is not None:
            pending.cancel()
        else:
            await source.aclose()  # which does not wait
