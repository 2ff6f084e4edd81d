"""Logging in and out with a browser."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from afl.dashboard.api.requests import headers_of
from afl.dashboard.authentication import client_address
from afl.dashboard.rendering import page, page_of_ours
from afl.dashboard.sessions import COOKIE, SESSION_SECONDS, Sessions, cookie_of
from afl.kernel.error_text import error_text
from afl.kernel.errors import AccessError
from afl.operations import audit
from afl.operations.roles import Caller, Role


async def login_page(request: Request) -> Response:
    """The form."""
    if not _sessions(request).demands_token:
        return RedirectResponse("/", 303)
    return await page(request, "login.html", target=_target(request.query_params.get("next", "")), problem="")


async def login(request: Request) -> Response:
    """A token from the form; the browser gets a cookie that only this site receives and no script reads."""
    form = await request.form()
    token, target = str(form.get("token", "")).strip(), _target(str(form.get("next", "")))
    sessions, where = _sessions(request), client_address(request)
    try:
        user = sessions.check(token, where)
    except AccessError as error:
        if sessions.worth_noting(where):
            stranger = Caller("anonymous", Role.VIEWER, where)
            await _note(request, stranger, "login", audit.REFUSED, error_text(error))
        refused = await page(
            request, "login.html", status=error.status, target=target, problem=error_text(error)
        )
        refused.headers.update(headers_of(error.status))
        return refused
    await _note(request, Caller(user.name, user.role, where), "login", audit.DONE)
    response = RedirectResponse(target, 303)
    response.set_cookie(
        COOKIE,
        sessions.begin(user),
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        secure="https://" in (f"{request.scope['scheme']}://", request.headers.get("Origin", "")[:8]),
    )
    return response


async def logout(request: Request) -> Response:
    """The session ends, and the cookie with it."""
    _sessions(request).end(cookie_of(request, COOKIE))
    await _note(request, request.state.client.caller, "logout", audit.DONE)
    response = RedirectResponse("/login", 303)
    response.delete_cookie(COOKIE)
    return response


def _sessions(request: Request) -> Sessions:
    sessions: Sessions = request.app.state.sessions
    return sessions


def _target(path: str) -> str:
    return path if page_of_ours(path) else "/"


async def _note(request: Request, caller: Caller, what: str, outcome: str, message: str = "") -> None:
    await run_in_threadpool(audit.note, request.app.state.store, caller, what, caller.name, outcome, message)


routes = [
    Route("/login", login_page, methods=["GET"]),
    Route("/login", login, methods=["POST"]),
    Route("/logout", logout, methods=["POST"]),
]
