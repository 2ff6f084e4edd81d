"""Operations that send what happens as it happens, to those who ask with `Accept: text/event-stream`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.turn_streams import stream_turn
from afl.turns.turn_events import EventPosition

LAST_EVENT = "Last-Event-ID"


def wants_stream(request: Request) -> bool:
    """Whether the caller reads server-sent events."""
    return "text/event-stream" in request.headers.get("Accept", "")


async def turn_events(request: Request, arguments: Mapping[str, Any]) -> Response:
    """The events of a turn. A browser that connects again says which one it saw last."""
    after = request.headers.get(LAST_EVENT) or arguments.get("after", "")
    EventPosition.of(after)  # InputError for one that is none
    return await stream_turn(request, arguments["turn"], after)


STREAMS: Mapping[str, Callable[[Request, Mapping[str, Any]], Awaitable[Response]]] = {
    "turn_events": turn_events,
}
