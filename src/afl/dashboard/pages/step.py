"""One step, or the steps of one place: a page of its own, and a panel beside the graph."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import number_of
from afl.dashboard.rendering import ask, flash_redirect, fragment, page
from afl.dashboard.wording import plural, step_url, with_query
from afl.kernel.errors import AccessError, AgentFlowError
from afl.operations.run import control
from afl.operations.run.place_view import show_place
from afl.operations.run.step_view import show_step

_PAGE = 100
_STATES = ("failed", "waiting", "running", "caught", "done")


def _is_place(path: str) -> bool:
    """Whether several steps may stand there: an element of a foreach is not said."""
    return "#" in path.split("/")


async def step(request: Request) -> Response:
    path = request.path_params["path"]
    if _is_place(path):
        return await page(request, "place.html", active="runs", **await _place(request, path))
    return await page(request, "step.html", active="runs", **await _step(request, path))


async def step_part(request: Request) -> Response:
    """The same without the frame: for the panel, and to bring the page up to date."""
    path = request.path_params["path"]
    if _is_place(path):
        return await fragment(request, "_place.html", **await _place(request, path))
    return await fragment(request, "_step.html", **await _step(request, path))


async def _step(request: Request, path: str) -> dict[str, Any]:
    view = await ask(request, show_step, f"{request.path_params['run']}/{path}")
    return {"step": view, "is_panel": "panel" in request.query_params}


async def _place(request: Request, path: str) -> dict[str, Any]:
    given = request.query_params
    state = given.get("state", "")
    after = number_of(given.get("after", ""))
    run = request.path_params["run"]
    view = await ask(request, show_place, run, path, state=state, after=after, limit=_PAGE)
    here = step_url(view.run, path)
    return {
        "place": view,
        "wanted_state": state,
        "states": [each for each in _STATES if getattr(view.counts, each)],
        "first": with_query(here, state=state) if after else "",
        "next": with_query(here, state=state, after=view.next) if view.next else "",
        "is_panel": "panel" in given,
    }


async def retry(request: Request) -> Response:
    """Try the step again, then back to it."""
    run, path = request.path_params["run"], request.path_params["path"]
    try:
        done = await ask(request, control.retry, f"{run}/{path}")
        text, kind = f"{plural(done.steps, 'step')} will be tried again.", "good"
    except AccessError:
        raise
    except AgentFlowError as error:
        text, kind = str(error), "bad"
    return flash_redirect(request, step_url(run, path), text, kind)


routes = [
    Route("/runs/{run}/steps/{path:path}", step),
    Route("/runs/{run}/step-part/{path:path}", step_part),
    Route("/runs/{run}/step-retry/{path:path}", retry, methods=["POST"]),
]
