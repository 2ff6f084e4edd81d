"""Two runs side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, page
from afl.kernel.errors import InputError, NotFoundError
from afl.operations.run.compare import RunComparison, compare_runs


async def compare(request: Request) -> Response:
    """The runs that the query names; a form for them, if it does not name both or one is not there."""
    first, second = (request.query_params.get(each, "").strip() for each in ("first", "second"))
    found: RunComparison | None = None
    problem = ""
    if first and second:
        try:
            found = await ask(request, compare_runs, first, second)
        except (NotFoundError, InputError) as error:
            problem = str(error)
    status = 404 if problem else 200
    context = {"found": found, "first": first, "second": second, "problem": problem}
    return await page(request, "compare.html", active="runs", status=status, **context)


routes = [Route("/compare", compare)]
