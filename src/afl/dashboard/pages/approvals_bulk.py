"""Several approvals at once: a preview of what each would be answered, then the answers, one by one."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import text_of
from afl.dashboard.rendering import ask, flash_redirect, page
from afl.dashboard.wording import short
from afl.kernel.errors import AccessError, AgentFlowError
from afl.operations.people import approvals
from afl.operations.people.answer_preview import MOST, preview_answers
from afl.operations.spans import plural

_INBOX = "/approvals"


async def several(request: Request) -> Response:
    """What would be answered."""
    ids = _ids(await request.form())
    if not ids:
        return flash_redirect(request, _INBOX, "Check those that you want to answer first.", "note")
    planned = await ask(request, preview_answers, ids)
    is_open = [each for each in planned if each.approval is not None and each.approval.state == "open"]
    ready = sum(not each.problem for each in is_open)
    return await page(
        request, "approvals_several.html", active="approvals", planned=planned, open=len(is_open), ready=ready
    )


async def answer_several(request: Request) -> Response:
    """Approve or reject each; what cannot be answered any more is named, and does not stop the others."""
    data = await request.form()
    rejects = text_of(data, "verdict") == "reject"
    feedback = text_of(data, "feedback")
    done, problems = 0, []
    for id in _ids(data):
        try:
            if rejects:
                await ask(request, approvals.reject, id, feedback)
            else:
                await ask(request, approvals.answer, id)
            done += 1
        except AccessError:
            raise
        except AgentFlowError as error:
            problems.append(str(error))
    verb = "Rejected" if rejects else "Approved"
    text = f"{verb} {plural(done, 'approval')}."
    if problems:
        text += f" {plural(len(problems), 'was', 'were')} not answered: {short('; '.join(problems), 600)}."
    return flash_redirect(request, _INBOX, text, "note" if problems else "good")


def _ids(data: FormData) -> list[str]:
    found = (each for each in data.getlist("id") if isinstance(each, str) and each)
    return list(dict.fromkeys(found))[:MOST]


routes = [
    Route("/approvals/several", several, methods=["POST"]),
    Route("/approvals/several/answer", answer_several, methods=["POST"]),
]
