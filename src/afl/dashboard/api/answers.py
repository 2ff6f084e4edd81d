"""Answers of the API: results as JSON, and one shape for everything that went wrong."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from afl.kernel.errors import AgentFlowError
from afl.operations import serialization
from afl.operations.catalogue import API
from afl.operations.problems import Problem, Refusal, problem_of

DOCS = f"{API}/docs"
_JSON = "application/json"
_WORDS = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}


def is_api(path: str) -> bool:
    """Whether programs ask there, and get JSON; the page for people is none of it."""
    return (path == API or path.startswith(f"{API}/")) and path != DOCS


def success(result: object) -> Response:
    """A result."""
    return Response(serialization.encode(result), media_type=_JSON)


def refusal(problem: Problem, status: int, headers: dict[str, str] | None = None) -> Response:
    """A problem."""
    return Response(serialization.encode(Refusal(problem)), status, headers, _JSON)


def refused(error: AgentFlowError) -> Response:
    """A deliberate error; whoever is not known is told how to say who it is."""
    status = error.status
    return refusal(problem_of(error), status, {"WWW-Authenticate": "Bearer"} if status == 401 else None)


def refused_by_http(error: HTTPException) -> Response:
    """An error of the router."""
    code = _WORDS.get(error.status_code, f"http-{error.status_code}")
    headers = dict(error.headers) if error.headers else None
    hint = "/api/v1/openapi.json lists what there is."
    return refusal(Problem(code, str(error.detail), hint), error.status_code, headers)
