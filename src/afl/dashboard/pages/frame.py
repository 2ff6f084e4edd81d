"""What surrounds every page: the way in, assets, events, the theme, the navigation's numbers."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from afl.dashboard.live import events
from afl.dashboard.navigation import NAVIGATION, page_of_ours
from afl.dashboard.rendering import THEME_COOKIE, THEMES, ask, fragment
from afl.operations.run.badges import badges

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
