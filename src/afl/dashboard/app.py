"""The web application: the pages, the API, and the gate before both."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import TypeAlias

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from afl import __version__
from afl.dashboard import login
from afl.dashboard.api.chat_completions import chat_routes
from afl.dashboard.api.requests import problem_of_http, reads_pages
from afl.dashboard.api.routes import api_routes
from afl.dashboard.authentication import Authentication
from afl.dashboard.live import Hub
from afl.dashboard.middleware import METRICS, Defects, Headers, PayloadLimit, answer, refuse
from afl.dashboard.rendering import ThreadLimits, page
from afl.dashboard.sessions import Sessions
from afl.dashboard.streams import line_stream_limit, live_page_limit
from afl.dashboard.turn_streams import TurnStreams
from afl.kernel.errors import AgentFlowError
from afl.kernel.metrics import CONTENT_TYPE
from afl.kernel.settings import Settings
from afl.operations.access import load_users
from afl.operations.metrics import metrics
from afl.operations.problems import Problem, problem_of
from afl.operations.run.runs import opened
from afl.runtime.persistence import PersistenceAPI

Life: TypeAlias = Callable[[Starlette], AbstractAsyncContextManager[None]]


def create_app(settings: Settings, store: PersistenceAPI | None = None) -> Starlette:
    """The application. Without a store it opens that of the settings when it starts, and closes it at the end."""
    sessions = Sessions(load_users(settings))
    app = Starlette(
        routes=_routes(),
        middleware=[
            Middleware(Headers),
            Middleware(PayloadLimit, limit=settings.max_payload_bytes),
            Middleware(Defects),
            Middleware(Authentication, settings=settings, sessions=sessions),
        ],
        exception_handlers={
            AgentFlowError: _refused,
            HTTPException: _refused_by_http,
        },
        lifespan=_lifespan(settings, store),
    )
    app.state.settings = settings
    app.state.sessions = sessions
    app.state.threads = ThreadLimits()
    app.state.live_page_limit, app.state.line_stream_limit = live_page_limit(), line_stream_limit()
    if store is not None:
        app.state.store = store
    return app


def _lifespan(settings: Settings, store: PersistenceAPI | None) -> Life:
    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        with ExitStack() as stack:
            app.state.store = store if store is not None else stack.enter_context(opened(settings))
            app.state.hub = Hub(app.state.store, settings)
            stack.callback(app.state.hub.close)
            app.state.turn_streams = TurnStreams(settings)
            try:
                yield
            finally:
                await app.state.turn_streams.close()

    return life


def _routes() -> list[BaseRoute]:
    pages: list[BaseRoute] = list(importlib.import_module("afl.dashboard.pages").ROUTES)
    return [
        Route("/health", _health),
        Route(METRICS, _metrics),
        *login.routes,
        *api_routes(),
        *chat_routes(),
        *pages,
    ]


async def _health(request: Request) -> Response:
    """For health checks."""
    return JSONResponse({"status": "ok", "version": __version__})


async def _metrics(request: Request) -> Response:
    """For Prometheus; it has to bring a token where one is demanded."""
    state = request.app.state
    text = await run_in_threadpool(metrics, state.store, state.settings)
    return Response(text, media_type=CONTENT_TYPE)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentFlowError)
    if not reads_pages(request):
        return refuse(request, error)
    return await page(request, "error.html", status=error.status, problem=problem_of(error))


async def _refused_by_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if not reads_pages(request):
        return answer(request, problem_of_http(error), error.status_code, error.headers)
    problem = Problem("", str(error.detail))
    response = await page(request, "error.html", status=error.status_code, problem=problem)
    response.headers.update(error.headers or {})
    return response
