"""The approvals inbox: what waits for a person, the form that answers it, and what was answered."""

from __future__ import annotations

from collections import Counter
from typing import Any
from urllib.parse import quote, urlencode

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.approvals_bulk import routes as bulk_routes
from afl.dashboard.pages.parts import live_page, shown_texts, submitted, text_of
from afl.dashboard.rendering import ask, flash_redirect, fragment, page
from afl.operations.people import approvals
from afl.operations.people.approvals import ApprovalClosed, ApprovalView, list_answered
from afl.operations.people.forms import FormError, parse

_PAGE = 50
_GROUPS = 500  # questions that are looked through for the groups they wait for
_VIEWS = ("waiting", "answered")


async def _inbox(request: Request) -> dict[str, Any]:
    given = request.query_params
    group, view, after = given.get("group", ""), given.get("view", "waiting"), given.get("after", "")
    waiting = await ask(request, approvals.list_approvals, limit=_GROUPS)
    if view == "answered":
        found = await ask(request, list_answered, group=group, limit=_PAGE)
    else:
        view = "waiting"
        found = await ask(request, approvals.list_approvals, group=group, limit=_PAGE + 1, after=after)
    chosen = {"group": group, "view": "" if view == "waiting" else view, "after": after}
    more = view == "waiting" and len(found) > _PAGE
    return {
        "approvals": found[:_PAGE],
        "groups": sorted(Counter(each.group for each in waiting).items()),
        "total": len(waiting),
        "most": _GROUPS,
        "group": group,
        "view": view,
        "first": f"/approvals?{_query({**chosen, 'after': ''})}" if after else "",
        "next": f"/approvals?{_query({**chosen, 'after': found[_PAGE - 1].id})}" if more else "",
        "source": f"/approvals/fragment/list?{_query(chosen)}",
    }


def _query(values: dict[str, str]) -> str:
    return urlencode({name: value for name, value in values.items() if value})


async def approval(request: Request) -> Response:
    view = await ask(request, approvals.show_approval, request.path_params["approval"])
    return await _form(request, view, shown_texts(view.form), {})


async def _form(
    request: Request, view: ApprovalView, texts: dict[str, str], problems: dict[str, str], feedback: str = ""
) -> Response:
    return await page(
        request,
        "approval.html",
        active="approvals",
        status=422 if problems else 200,
        view=view,
        approval=view.approval,
        form=view.form,
        texts=texts,
        problems=problems,
        feedback=feedback,
    )


async def approval_state(request: Request) -> Response:
    view = await ask(request, approvals.show_approval, request.path_params["approval"])
    return await fragment(request, "approval_state.html", view=view, approval=view.approval)


async def answer(request: Request) -> Response:
    """Approve, with what the form says; what does not fit is said beside its field, and nothing happens."""
    data = await request.form()
    view = await ask(request, approvals.show_approval, request.path_params["approval"])
    texts = submitted(view.form, data)
    try:
        values = {} if view.approval.plain else parse(view.form, texts)
        await ask(request, approvals.answer, view.approval.id, values)
    except FormError as error:
        return await _form(request, view, texts, error.problems)
    except ApprovalClosed as error:
        return flash_redirect(request, _url(view), str(error), "note")
    return flash_redirect(request, "/approvals", f"Approved: {view.approval.title}.")


async def reject(request: Request) -> Response:
    """Refuse, and say why: that is the message of the step's error."""
    data: FormData = await request.form()
    view = await ask(request, approvals.show_approval, request.path_params["approval"])
    feedback = text_of(data, "feedback")
    try:
        await ask(request, approvals.reject, view.approval.id, feedback)
    except ApprovalClosed as error:
        return flash_redirect(request, _url(view), str(error), "note")
    return flash_redirect(request, "/approvals", f"Rejected: {view.approval.title}.")


def _url(view: ApprovalView) -> str:
    return f"/approvals/{quote(view.approval.id, safe='')}"


routes = [
    *live_page("/approvals", "approvals", "list", _inbox, active="approvals"),
    *bulk_routes,
    Route("/approvals/{approval}", approval),
    Route("/approvals/{approval}/fragment/state", approval_state),
    Route("/approvals/{approval}/answer", answer, methods=["POST"]),
    Route("/approvals/{approval}/reject", reject, methods=["POST"]),
]
