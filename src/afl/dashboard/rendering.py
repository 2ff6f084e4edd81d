"""Pages from templates: the navigation, what every page has, and messages that survive a redirect.

Everything that comes from a store is shown as text: the environment escapes always, and no template may ask it not to.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from urllib.parse import urlencode

import anyio
from anyio.to_thread import run_sync
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from afl import __version__
from afl.client.store_client import StoreClient
from afl.dashboard.sessions import COOKIE, cookie_of
from afl.dashboard.wording import FILTERS, GLOBALS
from afl.kernel.clock import wall_ms
from afl.kernel.control_characters import visible_formats
from afl.kernel.error_text import error_text
from afl.operations.catalog import operation_of
from afl.operations.operation import Needs, Operation
from afl.operations.roles import Role
from afl.operations.run.run_summary import Badges
from afl.operations.run.run_summary import badges as count


@dataclass(frozen=True)
class Section:
    """One entry of the navigation. `key` goes there after `g`."""

    name: str
    title: str
    path: str
    key: str


@dataclass(frozen=True)
class Group:
    """Entries that belong together."""

    title: str
    sections: tuple[Section, ...]


NAVIGATION = (
    Group(
        "Work",
        (
            Section("overview", "Overview", "/overview", "v"),
            Section("runs", "Runs", "/runs", "r"),
            Section("start", "Start", "/start", "s"),
            Section("flows", "Flows", "/flows", "o"),
            Section("approvals", "Approvals", "/approvals", "a"),
            Section("schedules", "Schedules", "/schedules", "c"),
        ),
    ),
    Group(
        "Hands",
        (
            Section("tasks", "Tasks", "/tasks", "t"),
            Section("servers", "Servers", "/servers", "w"),
            Section("turns", "Turns", "/turns", "u"),
            Section("fleet", "Fleet", "/fleet", "f"),
            Section("messages", "Messages", "/messages", "m"),
        ),
    ),
    Group("Records", (Section("audit", "Audit", "/audit", "l"),)),
)


def badges(request: Request) -> Badges:
    """The numbers, for somebody who may see them; none on the login page."""
    client = client_of_request(request)
    return client.call(count) if client is not None else Badges()


def page_of_ours(path: str) -> bool:
    """Whether it is a page of this site, and safe to be sent to; `//evil.example` and `https://...` are not."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


def client_of_request(request: Request) -> StoreClient | None:
    """The client of the caller; None on pages that everybody may see."""
    client: StoreClient | None = request.scope.get("state", {}).get("client")
    return client


_WAITING = 128
_PART = 16
_PARTS = (Needs.FLEET, Needs.REDIS)


class ThreadLimits:
    """How many threads each kind of operation may take; made inside the loop that uses them."""

    def __init__(self) -> None:
        self._limiters: dict[str, anyio.CapacityLimiter] = {}

    def of(self, operation: Operation, arguments: Mapping[str, Any]) -> anyio.CapacityLimiter | None:
        """For a call that waits or may take long; None: those of everybody."""
        if arguments.get(operation.patience):
            # Workers wait most of the time: those of others are not theirs to use up.
            return self._made("working" if operation.role is Role.WORKER else "waiting", _WAITING)
        return self._made(operation.needs, _PART) if operation.needs in _PARTS else None

    def _made(self, name: str, most: int) -> anyio.CapacityLimiter:
        if name not in self._limiters:
            self._limiters[name] = anyio.CapacityLimiter(most)
        return self._limiters[name]


P = ParamSpec("P")
R = TypeVar("R")

FLASH_COOKIE = "afl-flash"
THEME_COOKIE = "afl-theme"
THEMES = ("auto", "light", "dark")
_FLASH_SECONDS = 30
_LONGEST_FLASH = 600


def _shown(value: Any) -> Any:
    """What a template writes, as people see it; `|e` is for texts that a form only sends back."""
    return visible_formats(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("afl.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals.update(GLOBALS, version=__version__)
    return made


ENVIRONMENT = _environment()


async def ask(
    request: Request, function: Callable[Concatenate[Any, P], R], *args: P.args, **kwargs: P.kwargs
) -> R:
    """What an operation answers; the caller's role decides whether it may be asked. In a thread: stores block."""
    client: StoreClient = request.state.client
    limiter = request.app.state.threads.of(operation_of(function), kwargs)
    return await run_sync(lambda: client.call(function, *args, **kwargs), limiter=limiter)


async def page(
    request: Request, template: str, *, active: str = "", status: int = 200, **context: Any
) -> Response:
    """A whole page. `active` is the section of the navigation it belongs to."""
    shown = await run_in_threadpool(_render_page, request, template, active, {"status": status, **context})
    response = HTMLResponse(shown, status)
    if cookie_of(request, FLASH_COOKIE):
        response.delete_cookie(FLASH_COOKIE)
    return response


async def fragment(request: Request, template: str, **context: Any) -> Response:
    """A part of a page, as live sections fetch it."""
    context = {**_person(request), **context}
    shown = await run_in_threadpool(lambda: ENVIRONMENT.get_template(template).render(context))
    return HTMLResponse(shown, headers={"Cache-Control": "no-store"})


@dataclass(frozen=True)
class QueryFilter:
    """What the form above a list asks for: fields of text, each a parameter of the address."""

    @classmethod
    def of(cls, request: Request) -> Self:
        given = request.query_params
        return cls(**{name: given.get(name, "").strip() for name in cls.__dataclass_fields__})

    @property
    def is_set(self) -> bool:
        return any(asdict(self).values())

    def query(self, **more: object) -> str:
        """As the query of an address."""
        return urlencode({name: value for name, value in (asdict(self) | more).items() if value})


def flash_redirect(request: Request, url: str, text: str = "", kind: str = "good") -> Response:
    """Go to a page (after an action), which then shows the text once. `kind` is good, bad or note."""
    response = RedirectResponse(url, status_code=303)
    if text:
        message = json.dumps([kind, error_text(text)[:_LONGEST_FLASH]]).encode()
        response.set_cookie(
            FLASH_COOKIE,
            base64.urlsafe_b64encode(message).decode(),
            max_age=_FLASH_SECONDS,
            httponly=True,
            samesite="strict",
            secure=request.scope["scheme"] == "https",
        )
    return response


def _render_page(request: Request, template: str, active: str, context: dict[str, Any]) -> str:
    whole = {
        **_person(request),
        "active": active,
        "navigation": NAVIGATION,
        "badges": badges(request),
        "theme": theme_of(request),
        "flash": _flash(request),
        "can_leave": bool(cookie_of(request, COOKIE)),
        "search_text": request.query_params.get("q", "") if request.scope["path"] == "/search" else "",
        **context,
    }
    return ENVIRONMENT.get_template(template).render(whole)


def _person(request: Request) -> dict[str, Any]:
    """Who looks, and what they may do: templates leave out what would be refused."""
    client = client_of_request(request)
    role = client.role if client is not None else Role.VIEWER
    return {
        "request": request,
        "now": wall_ms(),
        "actor": client.caller.name if client is not None else "",
        "role": str(role),
        "may_act": role.allows(Role.OPERATOR),
        "may_rule": role.allows(Role.ADMIN),
    }


def theme_of(request: Request) -> str:
    """The theme somebody chose; `auto` follows the system."""
    chosen = cookie_of(request, THEME_COOKIE)
    return chosen if chosen in THEMES else "auto"


def _flash(request: Request) -> tuple[str, str] | None:
    """A message that the last action left; what is not one of ours is none."""
    try:
        kind, text = json.loads(base64.urlsafe_b64decode(cookie_of(request, FLASH_COOKIE)))
    except (ValueError, TypeError, RecursionError):
        return None
    return (str(kind), str(text)) if kind in ("good", "bad", "note") else None
