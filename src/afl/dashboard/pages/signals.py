"""The signals of a run: what it waits for, with a form that delivers it, and what no step has received."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from afl.dashboard.pages.parts import shown_texts, submitted, text_of
from afl.dashboard.rendering import ask, flash_redirect, page
from afl.dashboard.wording import run_url, with_query
from afl.kernel.errors import AccessError, AgentFlowError
from afl.kernel.ids import sortable_id
from afl.operations.people.forms import Form, FormError, parse
from afl.operations.run import signaling
from afl.operations.work.task_queue import show_task
from afl.runtime.signals import SignalRefused


async def signals(request: Request) -> Response:
    """The name in the query, or the first that the run waits for."""
    found = await ask(request, signaling.list_signals, request.path_params["run"])
    name = request.query_params.get("name", "") or (found.awaited[0].name if found.awaited else "")
    form = await ask(request, signaling.signal_form, found.run, name) if name else None
    return await _page(request, found, name, form, shown_texts(form) if form else {}, {})


async def _page(
    request: Request,
    found: signaling.RunSignals,
    name: str,
    form: Form | None,
    texts: dict[str, str],
    problems: dict[str, str],
) -> Response:
    """The id of the delivery is made with the form: sent twice, it is delivered once."""
    return await page(
        request,
        "signals.html",
        active="runs",
        status=422 if problems else 200,
        signals=found,
        name=name,
        form=form,
        texts=texts,
        problems=problems,
        id=sortable_id(),
    )


async def deliver(request: Request) -> Response:
    """Deliver what the form says; what does not fit is said beside its field, and nothing is stored."""
    data = await request.form()
    run, name = request.path_params["run"], text_of(data, "name")
    form = await ask(request, signaling.signal_form, run, name)
    texts = submitted(form, data)
    try:
        values = parse(form, texts)
        done = await ask(request, signaling.send_signal, run, name, values, id=text_of(data, "id"))
    except (FormError, SignalRefused) as error:
        found = await ask(request, signaling.list_signals, run)
        problems = error.problems if isinstance(error, FormError) else {"": str(error)}
        return await _page(request, found, name, form, texts, problems)
    except AccessError:
        raise
    except AgentFlowError as error:
        return flash_redirect(request, with_query(f"{run_url(run)}/signals", name=name), str(error), "bad")
    where = f"received by {done.step}" if done.step else "kept until a step waits for it"
    return flash_redirect(request, run_url(run), f"Signal {name} was delivered; {where}.")


async def of_task(request: Request) -> Response:
    """From a task that waits for a signal to the form."""
    task = (await ask(request, show_task, request.path_params["task"])).line
    name = quote(task.via.partition(":")[2], safe="")
    return RedirectResponse(f"{run_url(task.run)}/signals?name={name}", 303)


routes = [
    Route("/runs/{run}/signals", signals),
    Route("/runs/{run}/signals", deliver, methods=["POST"]),
    Route("/signals/{task}", of_task),
]
