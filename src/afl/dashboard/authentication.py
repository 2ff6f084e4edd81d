"""Authentication: a middleware that finds the caller of every request.

Without a token or users every request has the role of an admin, so the server listens on the loopback alone. A web page
of another site, open in a browser on the same machine, is refused: the name in `Host` has to be one of the loopback,
and a request that the browser marks as coming from another site is not taken.

The path is read from `scope["path"]`: `request.url` contains the Host header, which the client chooses.
"""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from afl.client.store_client import StoreClient
from afl.dashboard.api.requests import is_api
from afl.dashboard.middleware import METRICS, refuse
from afl.dashboard.sessions import COOKIE, Sessions, cookie_of
from afl.kernel.error_text import error_text
from afl.kernel.errors import AccessError, Forbidden, Unauthenticated
from afl.kernel.settings import Settings
from afl.operations import audit
from afl.operations.roles import Caller, Role, operator

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN_PATHS = ("/login", "/static/", "/health", "/favicon.ico")
_SAFE = ("GET", "HEAD", "OPTIONS")


class Authentication:
    """Gives each request the client of its caller as `request.state.client`.

    `request.state.session` is the cookie of the caller's session; empty for one with a token.
    """

    def __init__(self, app: ASGIApp, settings: Settings, sessions: Sessions) -> None:
        self._app = app
        self._settings = settings
        self._sessions = sessions
        self._hosts = _hosts(settings, sessions)
        self._everybody = operator()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        try:
            self._check_origin(request)
            caller, session = self._identify(request)
            _check_place(caller, request)
        except AccessError as error:
            await run_sync(self._note, request, error)
            response = self._turned_away(request, error)
            await response(scope, receive, send)
            return
        if caller is not None:
            state = scope.setdefault("state", {})
            state["client"] = StoreClient(request.app.state.store, self._settings, caller)
            state["session"] = session
        await self._app(scope, receive, send)

    def _check_origin(self, request: Request) -> None:
        host = request.headers.get("Host", "")
        if self._hosts and host_name(host) not in self._hosts:
            raise Forbidden(
                f"this server is not called {host_name(host)!r}; AFL_DASHBOARD_HOSTS names its names"
            )
        site = request.headers.get("Sec-Fetch-Site", "none")
        navigates = request.method == "GET" and request.headers.get("Sec-Fetch-Mode") == "navigate"
        if site not in ("none", "same-origin") and not (navigates and not is_api(request.scope["path"])):
            raise Forbidden("a request from another site is not taken")
        origin = request.headers.get("Origin")
        if (
            origin is not None
            and request.method not in _SAFE
            and origin.partition("://")[2] != (host or None)
        ):
            raise Forbidden("a request from another site is not taken")

    def _identify(self, request: Request) -> tuple[Caller | None, str]:
        """Who asks, and by which session; None where that does not matter."""
        where = client_address(request)
        if not self._sessions.demands_token:
            return Caller(self._everybody, Role.ADMIN, where), ""
        if request.scope["path"].startswith(_OPEN_PATHS):
            return None, ""
        header, session = request.headers.get("Authorization", ""), ""
        if header:
            kind, _, token = header.partition(" ")
            if kind.lower() != "bearer":
                raise Unauthenticated("Authorization has to be `Bearer` and a token")
            user = self._sessions.check(token.strip(), where)
        else:
            session = cookie_of(request, COOKIE)
            user = self._sessions.session(session)
        return Caller(user.name, user.role, where), session

    def _turned_away(self, request: Request, error: AccessError) -> Response:
        if isinstance(error, Unauthenticated) and _opens_page(request):
            query = request.scope["query_string"].decode("latin-1")
            target = request.scope["path"] + (f"?{query}" if query else "")
            return RedirectResponse(f"/login?next={quote(target, safe='')}", 303)
        return refuse(request, error)

    def _note(self, request: Request, error: AccessError) -> None:
        """What was refused is written down, unless it only looked; not more of it than a person can read."""
        wrong_token = isinstance(error, Unauthenticated) and "Authorization" in request.headers
        if (request.method in _SAFE and not wrong_token) or not self._sessions.worth_noting(
            client_address(request)
        ):
            return
        caller = Caller("anonymous", Role.VIEWER, client_address(request))
        place = f"{request.method} {request.scope['path']}"
        audit.note(
            request.app.state.store, caller, place[:_LONGEST_PLACE], "", audit.REFUSED, error_text(error)
        )


_LONGEST_PLACE = 200


def _hosts(settings: Settings, sessions: Sessions) -> frozenset[str]:
    named = frozenset(each.strip().lower() for each in settings.dashboard_hosts.split(",") if each.strip())
    if named:
        return named | LOOPBACK
    return frozenset() if sessions.demands_token else LOOPBACK


def _check_place(caller: Caller | None, request: Request) -> None:
    """Forbidden for a worker outside of the API, where each operation says who may call it."""
    if caller is not None and caller.role is Role.WORKER and not is_api(request.scope["path"]):
        raise Forbidden(f"{caller.name} is a worker, and claims tasks by the API; pages take a viewer")


def _opens_page(request: Request) -> bool:
    """Whether somebody would read a login page: no program, no scraper, and no script of an open page."""
    if request.method != "GET" or is_api(request.scope["path"]) or request.scope["path"] == METRICS:
        return False
    return "X-Fragment" not in request.headers and "text/event-stream" not in request.headers.get(
        "Accept", ""
    )


def host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def client_address(request: Request) -> str:
    """From where the request came."""
    return request.client.host if request.client is not None else "unknown"
