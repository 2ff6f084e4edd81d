"""Pages that start workflows, and pages of flows."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import shown_texts, submitted, text_of
from afl.dashboard.rendering import ask, flash_redirect, page
from afl.dashboard.wording import flow_url, run_url, with_query
from afl.kernel.error_text import error_text
from afl.kernel.errors import AccessError, AgentFlowError, InputError
from afl.kernel.ids import random_id
from afl.language.diagnostics import render
from afl.operations.parameters import LONGEST_SOURCE
from afl.operations.people.forms import Form, FormError, parse
from afl.operations.program.flows import FlowView, list_flows, show_flow
from afl.operations.program.library import SourceForm, list_workflows, source_form, workflow_form
from afl.operations.program.submission import Submitted, start_workflow, submit_source


async def start(request: Request) -> Response:
    """Choose a workflow, or fill in the form of the one that was chosen."""
    workflow = request.query_params.get("workflow", "")
    if not workflow:
        return await _choice(request)
    form = await ask(request, workflow_form, workflow)
    return await _form(request, form, shown_texts(form), workflow=workflow)


async def _choice(request: Request, source: str = "", found: SourceForm | None = None) -> Response:
    known = await ask(request, list_workflows)
    findings = [(each, render(each, source)) for each in found.findings] if found is not None else []
    failed = any(each.severity == "error" for each, _ in findings)
    context = {
        "known": known,
        "source": source,
        "findings": findings,
        "workflows": found.workflows if found else [],
    }
    return await page(request, "start.html", active="start", status=422 if failed else 200, **context)


async def _form(
    request: Request,
    form: Form,
    texts: dict[str, str],
    *,
    workflow: str,
    source: str = "",
    key: str = "",
    task_list: str = "default",
    problems: dict[str, str] | None = None,
) -> Response:
    """The form; its key makes a second click the same run."""
    context: dict[str, Any] = {
        "form": form,
        "texts": texts,
        "workflow": workflow,
        "source": source,
        "key": key or random_id(),
        "task_list": task_list,
        "problems": problems or {},
    }
    return await page(request, "start_form.html", active="start", status=422 if problems else 200, **context)


async def read_source(request: Request) -> Response:
    """A source that somebody pasted or brought: its findings, its workflows, or the form of its only one."""
    async with request.form() as data:  # a file that was sent is closed at the end
        source, workflow = await _source_of(data), text_of(data, "workflow")
    if not source.strip():
        return flash_redirect(request, "/start", "Paste a source, or choose a file.", "note")
    found = await ask(request, source_form, source, workflow=workflow)
    if found.form is None:
        return await _choice(request, source, found)
    return await _form(request, found.form, shown_texts(found.form), workflow=found.workflow, source=source)


async def _source_of(data: FormData) -> str:
    file = data.get("file")
    if isinstance(file, UploadFile) and file.filename:
        read = await file.read(LONGEST_SOURCE + 1)
        if len(read) > LONGEST_SOURCE:
            raise InputError(f"{file.filename} is larger than a source may be ({LONGEST_SOURCE:,} bytes)")
        return read.decode(errors="replace")
    source = data.get("source")
    if isinstance(source, str) and len(source) > LONGEST_SOURCE:
        raise InputError(f"the source is larger than one may be ({LONGEST_SOURCE:,} characters)")
    return source.replace("\r\n", "\n") if isinstance(source, str) else ""


async def submit(request: Request) -> Response:
    """Start the run; what does not fit is said beside its field, and nothing is stored."""
    data = await request.form()
    workflow, key, task_list = text_of(data, "workflow"), text_of(data, "key"), text_of(data, "task_list")
    source = await _source_of(data)
    form = await _form_of(request, workflow, source)
    texts = submitted(form, data)
    again = {"workflow": workflow, "source": source, "key": key, "task_list": task_list}
    try:
        values = parse(form, texts)
        done = await _submit(request, source, workflow, values, task_list or "default", key)
    except FormError as error:
        return await _form(request, form, texts, **again, problems=error.problems)
    except AccessError:
        raise
    except AgentFlowError as error:
        return await _form(request, form, texts, **{**again, "key": ""}, problems={"": error_text(error)})
    return flash_redirect(request, run_url(done.run), f"Started {done.workflow}.")


async def _form_of(request: Request, workflow: str, source: str) -> Form:
    if not source:
        return await ask(request, workflow_form, workflow)
    found = await ask(request, source_form, source, workflow=workflow)
    if found.form is None:
        raise InputError(f"the source has no workflow {workflow!r}, or does not compile")
    return found.form


async def _submit(
    request: Request, source: str, workflow: str, values: dict[str, Any], task_list: str, key: str
) -> Submitted:
    if source:
        return await ask(request, submit_source, source, workflow, values, task_list=task_list, key=key)
    return await ask(request, start_workflow, workflow, values, task_list=task_list, key=key)


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
    Route("/start", start),
    Route("/start/source", read_source, methods=["POST"]),
    Route("/start/run", submit, methods=["POST"]),
    Route("/flows", flow_list),
    Route("/flows/{flow:path}", flow),
]
