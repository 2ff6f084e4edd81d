"""Pages that start a run again: from its beginning, or from a step, with its inputs in a typed form."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import shown_texts, submitted, text_of
from afl.dashboard.rendering import ask, flash_redirect, page
from afl.dashboard.wording import run_url, step_url
from afl.kernel.error_text import error_text
from afl.kernel.errors import AccessError, AgentFlowError
from afl.kernel.ids import random_id, sortable_id
from afl.operations.people.forms import Form, FormError, parse
from afl.operations.program.submission import RunExists
from afl.operations.run.fork import ForkForm, fork, fork_form
from afl.operations.run.rerun import rerun, rerun_form


async def again(request: Request) -> Response:
    """The form that starts a workflow, with the inputs that the run had."""
    form = await ask(request, rerun_form, request.path_params["run"])
    return await _rerun_page(request, form, shown_texts(form), {}, random_id())


async def _rerun_page(
    request: Request, form: Form, texts: dict[str, str], problems: dict[str, str], key: str
) -> Response:
    """Its key makes a second click the same run."""
    context: dict[str, Any] = {"form": form, "texts": texts, "problems": problems, "key": key}
    status = 422 if problems else 200
    return await page(
        request, "rerun.html", active="runs", status=status, run=request.path_params["run"], **context
    )


async def start_again(request: Request) -> Response:
    """Start the run; what does not fit is said beside its field, and nothing is stored."""
    data = await request.form()
    run, key = request.path_params["run"], text_of(data, "key")
    form = await ask(request, rerun_form, run)
    texts = submitted(form, data)
    try:
        done = await ask(request, rerun, run, parse(form, texts), key=key)
    except FormError as error:
        return await _rerun_page(request, form, texts, error.problems, key)
    except AccessError:
        raise
    except AgentFlowError as error:
        return await _rerun_page(request, form, texts, {"": error_text(error)}, random_id())
    return flash_redirect(request, run_url(done.run), f"Started {done.workflow} again.")


async def forked(request: Request) -> Response:
    """What a fork at the step would do, and the step's inputs."""
    run, path = request.path_params["run"], request.path_params["path"]
    try:
        found = await ask(request, fork_form, run, path)
    except AccessError:
        raise
    except AgentFlowError as error:
        return flash_redirect(request, step_url(run, path), error_text(error), "bad")
    return await _fork_page(request, found, shown_texts(found.form), {}, sortable_id())


async def _fork_page(
    request: Request, found: ForkForm, texts: dict[str, str], problems: dict[str, str], id: str
) -> Response:
    """The id of the new run is made with the form: sent twice, it is one run."""
    context: dict[str, Any] = {
        "fork": found,
        "form": found.form,
        "texts": texts,
        "problems": problems,
        "id": id,
    }
    path, status = request.path_params["path"], 422 if problems else 200
    return await page(request, "fork.html", active="runs", status=status, path=path, **context)


async def start_fork(request: Request) -> Response:
    """Fork the run; inputs that were left as they are, are worked out as before."""
    data = await request.form()
    run, path, id = request.path_params["run"], request.path_params["path"], text_of(data, "id")
    found = await ask(request, fork_form, run, path)
    texts = submitted(found.form, data)
    try:
        before = parse(found.form, {}) if texts else {}
        values = {
            name: value for name, value in parse(found.form, texts).items() if before.get(name) != value
        }
        done = await ask(request, fork, run, path, inputs=values, id=id)
    except FormError as error:
        return await _fork_page(request, found, texts, error.problems, id)
    except RunExists:
        return flash_redirect(request, run_url(id), "The fork was started before.", "note")
    except AccessError:
        raise
    except AgentFlowError as error:
        return await _fork_page(request, found, texts, {"": error_text(error)}, sortable_id())
    return flash_redirect(request, run_url(done.run), f"Forked at {done.step}.")


routes = [
    Route("/runs/{run}/again", again),
    Route("/runs/{run}/again", start_again, methods=["POST"]),
    Route("/runs/{run}/fork/{path:path}", forked),
    Route("/runs/{run}/fork/{path:path}", start_fork, methods=["POST"]),
]
