"""The page of a run (tree, graph, timeline, log) and the page of a step."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from afl.dashboard.drawings import GraphQuery, draw, states
from afl.dashboard.pages.parts import number_of
from afl.dashboard.pages.run_log import download_log, log_view
from afl.dashboard.rendering import ask, flash_redirect, fragment, page
from afl.dashboard.wording import run_url, step_url, with_query
from afl.kernel.errors import AccessError, AgentFlowError
from afl.operations.reason.why import why
from afl.operations.run import control
from afl.operations.run.place_view import show_place
from afl.operations.run.run_graph import RunGraph, run_graph
from afl.operations.run.run_summary import run_summary
from afl.operations.run.run_timeline import run_timeline
from afl.operations.run.run_view import show_run
from afl.operations.run.step_view import show_step
from afl.operations.spans import plural

VIEWS = ("graph", "timeline", "tree", "log")
_MOST_GROUPS = 300


async def run(request: Request) -> Response:
    """The page of a run; the view is part of the page, so that it works without scripts."""
    name = request.path_params["run"]
    view = request.query_params.get("view", "graph")
    view = view if view in VIEWS else "graph"
    summary = await ask(request, run_summary, name)
    shown = await _VIEWS[view](request, summary.line.run)
    context = {
        "summary": summary,
        "view": view,
        "views": VIEWS,
        "source": "",
        "reason": await _reason(request, summary),
        **shown,
    }
    return await page(request, "run.html", active="runs", **context)


async def head(request: Request) -> Response:
    summary = await ask(request, run_summary, request.path_params["run"])
    return await fragment(request, "_run_head.html", summary=summary, reason=await _reason(request, summary))


async def _reason(request: Request, summary: Any) -> Any:
    return None if summary.is_over else await ask(request, why, summary.line.run)


async def _graph(request: Request, name: str) -> dict[str, Any]:
    found, query = await _drawn(request, name)
    return {"graph": draw(found, query)}


async def _drawn(request: Request, name: str) -> tuple[RunGraph, GraphQuery]:
    opened, folded = (request.query_params.getlist(each)[:_MOST_GROUPS] for each in ("open", "fold"))
    narrow = "narrow" in request.query_params
    found = await ask(request, run_graph, name, opened=opened, folded=folded, narrow=narrow)
    return found, GraphQuery(opened, folded, narrow)


async def _timeline(request: Request, name: str) -> dict[str, Any]:
    return {"timeline": await ask(request, run_timeline, name)}


async def _tree(request: Request, name: str) -> dict[str, Any]:
    return {"shown": await ask(request, show_run, name)}


_VIEWS: dict[str, Callable[[Request, str], Awaitable[dict[str, Any]]]] = {
    "graph": _graph,
    "timeline": _timeline,
    "tree": _tree,
    "log": log_view,
}


async def part(request: Request) -> Response:
    """One view of the run, as live pages fetch it."""
    view = request.path_params["view"]
    summary = await ask(request, run_summary, request.path_params["run"])
    context = await _VIEWS[view if view in VIEWS else "graph"](request, summary.line.run)
    return await fragment(
        request, f"_run_{view if view in VIEWS else 'graph'}.html", summary=summary, **context
    )


async def graph_states(request: Request) -> Response:
    """Where the nodes of the graph stand: all that changes while somebody looks at it."""
    found, _ = await _drawn(request, request.path_params["run"])
    return JSONResponse(states(found), headers={"Cache-Control": "no-store"})


def _acting(action: str) -> Callable[[Request], Awaitable[Response]]:
    """Do it, then back to the run."""

    async def act(request: Request) -> Response:
        name = request.path_params["run"]
        try:
            text, kind = await _ACTIONS[action](request, name)
        except AccessError:
            raise
        except AgentFlowError as error:
            text, kind = str(error), "bad"
        return flash_redirect(request, run_url(name), text, kind)

    return act


async def _retry(request: Request, name: str) -> tuple[str, str]:
    done = await ask(request, control.retry, name)
    return f"{plural(done.steps, 'step')} will be tried again.", "good"


def _changing(
    function: Callable[..., control.Change], text: str
) -> Callable[[Request, str], Awaitable[tuple[str, str]]]:
    async def change(request: Request, name: str) -> tuple[str, str]:
        done = await ask(request, function, name)
        return (text, "good") if done.changed else (f"Nothing changed: {done.why}.", "note")

    return change


_ACTIONS: dict[str, Callable[[Request, str], Awaitable[tuple[str, str]]]] = {
    "retry": _retry,
    "cancel": _changing(control.cancel, "The run was canceled."),
    "pause": _changing(control.pause, "The run is paused. Running tasks continue; their results wait."),
    "unpause": _changing(control.unpause, "The run continues."),
}


_PAGE = 100
_STATES = ("failed", "waiting", "running", "caught", "completed")


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
    text = given.get("text", "").strip().replace("\0", "")
    view = await ask(request, show_place, run, path, state=state, text=text, after=after, limit=_PAGE)
    here = step_url(view.run, path)
    wanted = {"state": state, "text": text}
    return {
        "place": view,
        "wanted_state": state,
        "text": text,
        "states": [each for each in _STATES if getattr(view.counts, each)],
        "first": with_query(here, **wanted) if after else "",
        "next": with_query(here, **wanted, after=view.next) if view.next else "",
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
    Route("/runs/{run}", run),
    Route("/runs/{run}/fragment/head", head),
    Route("/runs/{run}/fragment/{view}", part),
    Route("/runs/{run}/graph-states", graph_states),
    Route("/runs/{run}/log.txt", download_log),
    *(Route(f"/runs/{{run}}/{each}", _acting(each), methods=["POST"]) for each in _ACTIONS),
    Route("/runs/{run}/steps/{path:path}", step),
    Route("/runs/{run}/step-part/{path:path}", step_part),
    Route("/runs/{run}/step-retry/{path:path}", retry, methods=["POST"]),
]
