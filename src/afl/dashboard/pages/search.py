"""Search: whatever one has of an id or a name, in all parts at once. An exact id leads straight to its page."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from afl.dashboard.pages.parts import ask_soon
from afl.dashboard.rendering import page
from afl.dashboard.wording import run_url, step_url
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError
from afl.operations.search import Hit, search_store

SEARCHES: dict[str, Callable[[Any, str], list[Hit]]] = {"runs": search_store}
"""How each part is searched, by its section; the modules of parts add theirs."""

_LONGEST = 400
_JUMPS = ("run", "step", "task", "server", "turn", "fleet run")  # ids, which nothing else is called by


async def search(request: Request) -> Response:
    wanted = request.query_params.get("q", "").strip()[:_LONGEST]
    found = await asyncio.gather(*(_asked(request, part, wanted) for part in SEARCHES)) if wanted else []
    hits = [hit for _, some, _ in found for hit in some]
    exact = [hit for hit in hits if hit.exact and hit.kind in _JUMPS]
    if len(exact) == 1 and "stay" not in request.query_params:
        return RedirectResponse(url_of(exact[0]), 303)
    hits.sort(key=lambda hit: not hit.exact)
    groups: dict[str, list[Hit]] = {}
    for hit in hits:
        groups.setdefault(hit.kind, []).append(hit)
    unasked = [(part, problem) for part, _, problem in found if problem]
    return await page(request, "search.html", wanted=wanted, groups=groups, unasked=unasked, url_of=url_of)


async def _asked(request: Request, part: str, wanted: str) -> tuple[str, list[Hit], str]:
    """What a part has, or why it is unavailable."""
    try:
        return part, await ask_soon(request, SEARCHES[part], wanted), ""
    except AgentFlowError as error:
        return part, [], error_text(error)


def url_of(hit: Hit) -> str:
    """The page of what was found."""
    name = quote(hit.id, safe="")
    match hit.kind:
        case "run":
            return run_url(hit.id)
        case "step":
            return step_url(hit.run, hit.id.removeprefix(f"{hit.run}/") if hit.id != hit.run else "")
        case "task":
            return f"/tasks/{name}"
        case "server":
            return f"/servers/{name}"
        case "workflow":
            return f"/runs?{urlencode({'workflow': hit.id})}"
        case "schedule":
            return f"/schedules#{name}"
        case "turn":
            return f"/turns/{name}"
        case "agent":
            return f"/agents/{name}"
        case "fleet run":
            return f"/fleet/runs/{name}"
        case "fleet workflow":
            return f"/fleet/workflows/{name}"
        case "fleet agent":
            return "/fleet#agents"
        case "circuit breaker":
            return "/messages#breakers"
        case _:
            return "/messages"


routes = [Route("/search", search)]
