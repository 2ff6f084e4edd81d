"""Streams of server-sent events that end in order, whenever the browser goes.

A response that is cut off is cancelled for good: nothing in it may wait any more, not even for a connection to be
closed. So whatever has connections runs in a task of its own, which is told to end and takes its time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Generic, TypeVar

from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse

T = TypeVar("T")
_AHEAD = 100
_MOST = 200

_ending: set[asyncio.Task[None]] = set()  # the loop itself only knows its tasks weakly


def event_stream(events: AsyncIterator[str]) -> StreamingResponse:
    """The response of a stream; each has a connection of its own to some server, so there are only so many."""
    if len(_ending) >= _MOST:
        raise HTTPException(503, "too many streams are open at once")
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(events, media_type="text/event-stream", headers=headers)


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
