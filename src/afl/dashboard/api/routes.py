"""The routes of the API: one per row of the catalog, all alike.

`turn_events` sends what happens as it happens to those who ask with `Accept: text/event-stream`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route

from afl.client.store_client import StoreClient
from afl.dashboard.api.description import describe_api
from afl.dashboard.api.manual import about_api, show_manual
from afl.dashboard.api.requests import read_arguments, success
from afl.dashboard.turn_streams import stream_turn
from afl.operations.catalog import API, PUBLIC
from afl.operations.operation import Operation
from afl.turns.turn_events import EventPosition

Endpoint = Callable[[Request], Awaitable[Response]]
_LAST_EVENT = "Last-Event-ID"


def api_routes() -> list[BaseRoute]:
    """/api/v1 and everything below it."""
    # What is said in full counts before what stands for any name.
    ordered = sorted(PUBLIC, key=lambda each: (each.slashes, each.path.count("{")))
    by_path: dict[str, dict[str, Endpoint]] = {}
    for each in ordered:
        by_path.setdefault(_route(each), {})[each.method] = _endpoint(each)
    routes = [Route(path, _by_method(methods), methods=list(methods)) for path, methods in by_path.items()]
    own = [Route("/", about_api), Route("/openapi.json", describe_api), Route("/docs", show_manual)]
    return [Route(API, about_api), Mount(API, routes=[*own, *routes])]


def _route(operation: Operation) -> str:
    return operation.path.replace("}", ":path}") if operation.slashes else operation.path


def _by_method(endpoints: dict[str, Endpoint]) -> Endpoint:
    """One endpoint for a path: of several routes the first would answer any other method, and allow its own alone."""

    async def answer(request: Request) -> Response:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return answer


def _endpoint(operation: Operation) -> Endpoint:
    async def answer(request: Request) -> Response:
        client: StoreClient = request.state.client
        subject = str(request.path_params.get(operation.subject, ""))
        await run_sync(client.check, operation, subject)
        arguments = await read_arguments(operation, request)
        if operation.name == "turn_events" and "text/event-stream" in request.headers.get("Accept", ""):
            return await _turn_events(request, arguments)
        limiter, asked = request.app.state.threads.of(operation, arguments), time.monotonic()
        async with _watched(operation, request) as gone:

            def call() -> Any:  # once there is a thread, for which others may have waited as long
                left = operation.waiting_less(arguments, time.monotonic() - asked)
                return client.call(operation.function, **left, **gone)

            result = await run_sync(call, limiter=limiter)
        return success(result)

    return answer


@asynccontextmanager
async def _watched(operation: Operation, request: Request) -> AsyncIterator[dict[str, threading.Event]]:
    """For an operation with `gone`: an Event that is set once the caller has hung up. The body has been read."""
    if "gone" not in operation.local:
        yield {}
        return
    gone = threading.Event()

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    watcher = asyncio.create_task(watch())
    try:
        yield {"gone": gone}
    finally:
        gone.set()  # also for a request that is canceled: its thread goes on
        watcher.cancel()


async def _turn_events(request: Request, arguments: Mapping[str, Any]) -> Response:
    """The events of a turn. A browser that connects again says which one it saw last."""
    after = request.headers.get(_LAST_EVENT) or arguments.get("after", "")
    EventPosition.of(after)  # InputError for one that is none
    return await stream_turn(request, arguments["turn"], after)
