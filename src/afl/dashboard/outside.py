"""Answers that are made outside the pages: by the gate, by the limit of a request, and after a defect.

They ask nothing of the store, which may be what is broken, and nothing of whoever looks, who may be unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from afl.dashboard.api.answers import is_api, refusal
from afl.dashboard.rendering import ENVIRONMENT, theme_of
from afl.kernel.errors import AgentFlowError
from afl.operations.problems import Problem, problem_of

METRICS = "/metrics"


def refuse(request: Request, error: AgentFlowError) -> Response:
    """A deliberate error; whoever is not known is told how to say who it is."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else None
    return answer(request, problem_of(error), error.status, headers)


def answer(
    request: Request, problem: Problem, status: int, headers: Mapping[str, str] | None = None
) -> Response:
    """A problem as whoever asks can read it: a page for browsers, a text for scrapers, JSON for programs."""
    if request.scope["path"] == METRICS:
        return PlainTextResponse(f"{problem.message}\n", status, headers)
    if is_api(request.scope["path"]) or "text/html" not in request.headers.get("Accept", ""):
        return refusal(problem, status, dict(headers or {}))
    template = ENVIRONMENT.get_template("broken.html")
    return HTMLResponse(
        template.render(theme=theme_of(request), problem=problem, status=status), status, headers
    )
