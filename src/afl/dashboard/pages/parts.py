"""Parts that have a server of their own, which may be away: their pages then say what they are and how to start them.

A page of such a part is asked for by many (every open tab refreshes itself), so whatever it asks must answer soon or
count as away.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, fragment, page
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, CapabilityError, MissingExtraError, StoreError

P = ParamSpec("P")
R = TypeVar("R")
Handler = Callable[[Request], Awaitable[Response]]

_PATIENCE_SECONDS = 4.0
_ALWAYS_AWAY: tuple[type[AgentFlowError], ...] = (StoreError, MissingExtraError, CapabilityError)


@dataclass(frozen=True)
class Part:
    """A part: its section of the navigation, what it is for, and the commands that start it."""

    section: str
    title: str
    about: str
    commands: tuple[tuple[str, str], ...]
    away: tuple[type[AgentFlowError], ...] = ()

    @property
    def errors(self) -> tuple[type[AgentFlowError], ...]:
        """What is raised when it cannot be asked."""
        return (PartAway, *_ALWAYS_AWAY, *self.away)


class PartAway(AgentFlowError):
    """A part did not answer soon enough."""


async def ask_soon(
    request: Request, function: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """What an operation answers, or PartAway when that takes too long; its thread ends by itself."""
    answer = asyncio.ensure_future(ask(request, function, *args, **kwargs))
    done, _ = await asyncio.wait([answer], timeout=_PATIENCE_SECONDS)
    if not done:
        answer.add_done_callback(_forget)
        raise PartAway(f"it has not answered for {_PATIENCE_SECONDS:.0f} seconds")
    return answer.result()


def _forget(answer: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more; its error is not one of this page."""
    if not answer.cancelled():
        answer.exception()


def of_part(part: Part) -> Callable[[Handler], Handler]:
    """For handlers: when the part is away, the page says so."""

    def wrap(handler: Handler) -> Handler:
        @functools.wraps(handler)
        async def wrapped(request: Request) -> Response:
            try:
                return await handler(request)
            except part.errors as error:
                return await away(request, part, error)

        return wrapped

    return wrap


async def away(request: Request, part: Part, error: Exception) -> Response:
    """The page, or the fragment, of a part that cannot be asked. No error of ours, so it is an ordinary answer."""
    problem = error_text(error)
    if "/fragment/" in request.scope["path"]:
        return await fragment(request, "_part_away.html", part=part, problem=problem)
    return await page(request, "part_away.html", active=part.section, part=part, problem=problem)


def optional_routes(module: str, part: Part, paths: list[str]) -> list[Route]:
    """The routes of a module of pages; without the packages its part needs, pages that say so."""
    try:
        found: list[Route] = importlib.import_module(module).routes
    except MissingExtraError as missing:
        error = missing

        async def missing_page(request: Request) -> Response:
            return await away(request, part, error)

        return [Route(path, missing_page) for path in paths]
    return found
