"""The figures of a period."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from afl.dashboard.pages.parts import live_page
from afl.dashboard.rendering import ask
from afl.operations.run.overview import overview

PERIODS = {"1h": ("Last hour", 1), "24h": ("24 hours", 24), "7d": ("7 days", 168), "30d": ("30 days", 720)}
_USUAL = "24h"


async def _figures(request: Request) -> dict[str, Any]:
    name = request.query_params.get("period", _USUAL)
    period = name if name in PERIODS else _USUAL
    found = await ask(request, overview, PERIODS[period][1])
    periods = [(each, title, f"/overview?period={each}") for each, (title, _) in PERIODS.items()]
    return {"found": found, "period": period, "periods": periods}


routes = live_page("/overview", "overview", "figures", _figures, active="overview")
