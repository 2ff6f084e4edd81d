"""What pages share: the frame, parts that may be away, actions."""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from afl.dashboard.live import events
from afl.dashboard.rendering import NAVIGATION, THEME_COOKIE, THEMES, ask, fragment, page, page_of_ours
from afl.fleet.errors import KeyFileError, PrincipalAway, PrincipalFailed
from afl.kernel.control_characters import visible_formats
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, CapabilityError, MissingExtraError, StoreError
from afl.operations.people.forms import FieldKind, Form
from afl.operations.run.run_summary import badges

_YEAR_SECONDS = 365 * 86_400


class Assets(StaticFiles):
    """Files of the package; browsers ask each time whether they are still good, and are told so in a few bytes."""

    def file_response(
        self,
        full_path: str | os.PathLike[str],
        stat_result: os.stat_result,
        scope: Scope,
        status_code: int = 200,
    ) -> Response:
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["Cache-Control"] = "no-cache"
        return response


async def home(request: Request) -> Response:
    """`/` is the list of runs."""
    return RedirectResponse("/runs", status_code=302)


async def icon(request: Request) -> Response:
    """Browsers ask for it where no page names one: beside JSON and plain text."""
    return RedirectResponse("/static/mark.svg", status_code=308)


async def theme(request: Request) -> Response:
    """Choose a theme without scripts."""
    form = await request.form()
    chosen = str(form.get("theme", "auto"))
    response = RedirectResponse(_page_before(request), status_code=303)
    if chosen in THEMES:
        response.set_cookie(THEME_COOKIE, chosen, max_age=_YEAR_SECONDS, samesite="strict")
    return response


def _page_before(request: Request) -> str:
    """The page whose form it was, as the browser says; else the list of runs."""
    try:
        back = urlsplit(request.headers.get("referer", ""))
    except ValueError:  # no address at all
        return "/runs"
    if not page_of_ours(back.path):
        return "/runs"
    return f"{back.path}?{back.query}" if back.query else back.path


async def navigation(request: Request) -> Response:
    """The navigation with its numbers as of now."""
    counted = await ask(request, badges)
    active = request.query_params.get("active", "")
    return await fragment(request, "_navigation.html", navigation=NAVIGATION, badges=counted, active=active)


routes: list[BaseRoute] = [
    Route("/", home),
    Route("/events", events),
    Route("/favicon.ico", icon),
    Route("/theme", theme, methods=["POST"]),
    Route("/fragment/navigation", navigation),
    Mount("/static", Assets(packages=[("afl.dashboard", "static")]), name="static"),
]


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


def live_page(
    path: str,
    name: str,
    inner: str,
    context: Callable[[Request], Awaitable[dict[str, Any]]],
    *,
    active: str = "",
    part: Part | None = None,
) -> list[Route]:
    """The routes of a page and of what is fetched again when something changes: `NAME.html`, `NAME_INNER.html`."""
    section = active if part is None else part.section

    async def show(request: Request) -> Response:
        return await page(request, f"{name}.html", active=section, **await context(request))

    async def show_inner(request: Request) -> Response:
        return await fragment(request, f"{name}_{inner}.html", **await context(request))

    guarded = of_part(part) if part is not None else _as_it_is
    return [Route(path, guarded(show)), Route(f"{path}/fragment/{inner}", guarded(show_inner))]


def _as_it_is(handler: Handler) -> Handler:
    return handler


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


FLEET = Part(
    "fleet",
    "Fleet",
    "A principal keeps workflows of processes and starts them on a schedule or on demand; agents on any machine "
    "run them.",
    (
        ("Make a folder with a first workflow", "afl fleet init"),
        ("Start a principal with an agent beside it", "afl fleet principal --with-agent"),
        ("See what the settings say", "afl fleet settings"),
    ),
    (PrincipalAway, PrincipalFailed, KeyFileError),
)


MESSAGES = Part(
    "messages",
    "Messages",
    "Agents send each other messages over a Redis server: queues with priorities, dead letters, a registry of who "
    "lives, and circuit breakers that all processes share.",
    (
        ("Start a Redis server on this machine", "afl up --redis"),
        ("Then name it, as `afl up` printed it", "AFL_REDIS=redis://127.0.0.1:PORT/0 afl dashboard"),
    ),
)


_DIGITS = 17
FIELD = "field."
"""What the names of a typed form's fields begin with on a page, so that they meet no other."""


def number_of(text: str, most: int = 1 << 53) -> int:
    """A number that an address carries; 0 for what is none (`isdigit` alone would also take `²`)."""
    return min(int(text), most) if text.isascii() and text.isdigit() and len(text) < _DIGITS else 0


def text_of(form: Mapping[str, Any], name: str) -> str:
    """A field's text without the space around it; nothing for a file or a field that was not sent."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def submitted(form: Form, data: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a typed form by field; a box that is not ticked is false, since browsers do not send it.

    What nobody edited stays as it was, with the characters that the page wrote visibly.
    """
    texts: dict[str, str] = {}
    for field in form.every_field:
        value = data.get(FIELD + field.name)
        if isinstance(value, str):
            untouched = value.replace("\r\n", "\n") == visible_formats(field.text)
            texts[field.name] = field.text if untouched else value
        elif field.kind is FieldKind.BOOLEAN:
            texts[field.name] = "false"
    return texts


def shown_texts(form: Form) -> dict[str, str]:
    """What stands in the fields before anybody wrote there."""
    return {field.name: field.text for field in form.every_field}
