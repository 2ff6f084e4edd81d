"""Bulk actions: what one would hit, and doing it."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from afl.dashboard.pages.runs import Wanted
from afl.dashboard.rendering import ask, flash_redirect, page
from afl.kernel.errors import AccessError, AgentFlowError
from afl.operations.run.bulk import ACTION_NAMES, PRUNE, BulkResult, bulk_prune, bulk_runs, preview_bulk
from afl.operations.spans import plural

_EACH = 200
_DONE = {
    "retry": "Retrying",
    "rerun": "Started again:",
    "cancel": "Canceled",
    "pause": "Paused",
    "unpause": "Unpaused",
    PRUNE: "Removed",
}


async def preview(request: Request) -> Response:
    """What the action would hit; without one, or without a filter, back to the list."""
    wanted, action = Wanted.of(request.query_params), request.query_params.get("action", "")
    if action not in ACTION_NAMES or wanted.is_anything:
        return RedirectResponse(wanted.url(), 303)
    found = await ask(request, preview_bulk, action, **wanted.query)
    return await page(request, "bulk.html", active="runs", wanted=wanted, action=action, found=found)


async def act(request: Request) -> Response:
    """Do it to some, then back: to the list, or to what is left."""
    data = await request.form()
    given = {name: value for name, value in data.items() if isinstance(value, str)}
    wanted, action = Wanted.of(given), given.get("action", "")
    back = wanted.url("/bulk", action=action) if action in ACTION_NAMES else wanted.url()
    try:
        done = await _done(request, action, wanted.query)
    except AccessError:
        raise
    except AgentFlowError as error:
        return flash_redirect(request, back, str(error), "bad")
    text, kind = _told(done)
    return flash_redirect(request, back if done.next else wanted.url(), text, kind)


async def _done(request: Request, action: str, query: dict[str, Any]) -> BulkResult:
    if action == PRUNE:
        return await ask(request, bulk_prune, **query, limit=_EACH)
    return await ask(request, bulk_runs, action, **query, limit=_EACH)


def _told(done: BulkResult) -> tuple[str, str]:
    text = f"{_DONE[done.action]} {plural(done.done, 'run')}."
    if done.failed:
        first = done.failed[0]
        text += f" {plural(len(done.failed), 'run')} could not be changed: {first.run}: {first.problem}"
    return f"{text} More are left." if done.next else text, "bad" if done.failed else "good"


routes = [Route("/bulk", preview), Route("/bulk", act, methods=["POST"])]
