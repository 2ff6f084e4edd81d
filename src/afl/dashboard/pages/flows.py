"""Flows: the sources that the store keeps, and the compiled JSON of each."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, page
from afl.dashboard.wording import flow_url, with_query
from afl.language.diagnostics import render
from afl.operations.program.flows import FlowView, list_flows, show_flow

_PAGE = 50
_VIEWS = {"source": "Source", "json": "Compiled JSON"}


async def flow_list(request: Request) -> Response:
    before = request.query_params.get("before", "")
    found = await ask(request, list_flows, before=before, limit=_PAGE)
    context: dict[str, Any] = {
        "flows": found.flows,
        "first": "/flows" if before else "",
        "next": with_query("/flows", before=found.next) if found.next else "",
    }
    return await page(request, "flows.html", active="flows", **context)


async def flow(request: Request) -> Response:
    """The page of a flow; the view is part of its address, so that it works without scripts."""
    view = request.query_params.get("view", "source")
    view = view if view in _VIEWS else "source"
    found = await ask(request, show_flow, request.path_params["flow"], with_program=view == "json")
    here = flow_url(found.line.id)
    context: dict[str, Any] = {
        "flow": found,
        "view": view,
        "views": [(name, text, with_query(here, view=name)) for name, text in _VIEWS.items()],
        "findings": _findings(found),
    }
    return await page(request, "flow.html", active="flows", **context)


def _findings(found: FlowView) -> list[tuple[Any, str]]:
    text = found.sources[0].content if found.sources else ""
    return [(each, render(each, text)) for each in found.findings]


routes = [
    Route("/flows", flow_list),
    Route("/flows/{flow:path}", flow),
]
