"""The routes of the API: one per row of the catalogue, all alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from afl.dashboard.api.answers import success
from afl.dashboard.api.arguments import read_arguments
from afl.dashboard.api.description import describe_api
from afl.operations.catalogue import API, PUBLIC, Operation
from afl.operations.desk import LocalDesk

_WAITING_THREADS = 128


def api_routes() -> list[Mount]:
    """Everything below /api/v1."""
    waiting = Waiting()
    # What is said in full counts before what stands for any name.
    ordered = sorted(PUBLIC, key=lambda each: (each.slashes, each.path.count("{")))
    routes = [
        Route(_route(each), _endpoint(each, waiting), methods=[each.method], name=each.name)
        for each in ordered
    ]
    return [Mount(API, routes=[Route("/openapi.json", describe_api), *routes])]


def _route(operation: Operation) -> str:
    return operation.path.replace("}", ":path}") if operation.slashes else operation.path


class Waiting:
    """Threads for those who wait: they must not take the threads of those who only ask."""

    def __init__(self) -> None:
        self._limiter: anyio.CapacityLimiter | None = None

    @property
    def limiter(self) -> anyio.CapacityLimiter:
        """Made inside the loop that uses it."""
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(_WAITING_THREADS)
        return self._limiter


def _endpoint(operation: Operation, waiting: Waiting) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        desk: LocalDesk = request.state.desk
        await run_sync(desk.check, operation)
        arguments = await read_arguments(operation, request)
        limiter = waiting.limiter if operation.waits else None
        result = await run_sync(lambda: desk.do(operation.function, **arguments), limiter=limiter)
        return success(result)

    return answer
