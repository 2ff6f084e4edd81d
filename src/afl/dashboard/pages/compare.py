"""Two runs side by side."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.rendering import ask, page
from afl.kernel.errors import InputError, NotFoundError
from afl.operations.run.compare import RunComparison, compare_runs


async def compare(request: Request) -> Response:
    """The runs that the query names; a form for them, if it names none or one is not there.

    A run alone is compared with the one that it repeats.
    """
    first, second = (request.query_params.get(each, "").strip() for each in ("first", "second"))
    found: RunComparison | None = None
    problem = ""
    if first:
        try:
            found = await ask(request, compare_runs, first, second)
            first, second = found.first.run, found.second.run
        except InputError as error:
            problem = str(error) if second else ""
        except NotFoundError as error:
            problem = str(error)
    status = 404 if problem else 200
    context = {"found": found, "first": first, "second": second, "problem": problem}
    return await page(request, "compare.html", active="runs", status=status, **context)


routes = [Route("/compare", compare)]
