"""The figures of a period."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, fragment, page
from afl.operations.run.overview import overview

PERIODS = {"1h": ("Last hour", 1), "24h": ("24 hours", 24), "7d": ("7 days", 168), "30d": ("30 days", 720)}
_USUAL = "24h"


async def show(request: Request) -> Response:
    """The page."""
    return await page(request, "overview.html", active="overview", **await _figures(request))


async def part(request: Request) -> Response:
    """The figures alone, as a live page fetches them."""
    return await fragment(request, "_overview.html", **await _figures(request))


async def _figures(request: Request) -> dict[str, Any]:
    name = request.query_params.get("period", _USUAL)
    period = name if name in PERIODS else _USUAL
    found = await ask(request, overview, PERIODS[period][1])
    periods = [(each, title, f"/overview?period={each}") for each, (title, _) in PERIODS.items()]
    return {"found": found, "period": period, "periods": periods}


routes = [Route("/overview", show), Route("/overview/fragment", part)]
