"""Servers: which processes serve tasks, whether they live, what they hold, and why one is silent."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, fragment, page
from afl.operations.reason.subjects import UnknownSubject
from afl.operations.reason.why import why
from afl.operations.work.task_queue import list_tasks
from afl.operations.work.workers import Liveness, Server, servers
from afl.runtime.entities import TaskState

_HELD = 50
_ENDED = (Liveness.STOPPED, Liveness.DEAD)
_ENDED_SHOWN = 20


async def server_list(request: Request) -> Response:
    return await page(request, "servers.html", active="servers", **await _all(request))


async def server_rows(request: Request) -> Response:
    return await fragment(request, "servers_list.html", **await _all(request))


async def server(request: Request) -> Response:
    return await page(request, "server.html", active="servers", **await _one(request))


async def server_facts(request: Request) -> Response:
    return await fragment(request, "server_facts.html", **await _one(request))


async def _all(request: Request) -> dict[str, Any]:
    """Those that live or need a look first; of those that ended, the latest."""
    found = await ask(request, servers)
    group = request.query_params.get("group", "")
    groups = sorted({each.group for each in found if each.group})
    chosen = [each for each in found if group in ("", each.group)]
    ended = [each for each in chosen if each.liveness in _ENDED]
    ended.sort(key=lambda each: each.ping_age_ms)
    return {
        "open": [each for each in chosen if each.liveness not in _ENDED],
        "ended": ended[:_ENDED_SHOWN],
        "more_ended": max(0, len(ended) - _ENDED_SHOWN),
        "counts": Counter(each.liveness for each in chosen),
        "groups": groups,
        "group": group,
    }


async def _one(request: Request) -> dict[str, Any]:
    wanted = request.path_params["server"]
    found = _named(await ask(request, servers), wanted)
    held = []
    if found.owner:
        held = await ask(request, list_tasks, state=TaskState.RUNNING, owner=found.owner, limit=_HELD)
    return {"server": found, "held": held, "reason": await ask(request, why, found.id)}


def _named(found: list[Server], wanted: str) -> Server:
    server = next((each for each in found if each.id == wanted), None)
    if server is None:
        raise UnknownSubject(f"there is no server {wanted!r} in this store; `afl ps` lists them")
    return server


routes = [
    Route("/servers", server_list),
    Route("/servers/fragment/list", server_rows),
    Route("/servers/{server}", server),
    Route("/servers/{server}/fragment/facts", server_facts),
]
