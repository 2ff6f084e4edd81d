"""Pages of sessions: conversations with agents, as lists and as one transcript."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import ask_soon, of_part, text_of
from afl.dashboard.pages.tasks import skipped
from afl.dashboard.pages.turns import TURNS, transcript
from afl.dashboard.rendering import flash_redirect, fragment, page
from afl.dashboard.wording import segment
from afl.kernel.errors import InputError
from afl.operations.turn import sessions

_PAGE = 30
_TURNS = 50


def place_of(session: str) -> str:
    """The path of a session's page."""
    return f"/sessions/{segment(session)}"


@of_part(TURNS)
async def overview(request: Request) -> Response:
    skip = skipped(request)
    found = await ask_soon(request, sessions.list_sessions, limit=_PAGE + 1, skip=skip)
    return await page(
        request,
        "sessions.html",
        active="turns",
        sessions=found[:_PAGE],
        earlier=f"/sessions?skip={max(0, skip - _PAGE)}" if skip else "",
        later=f"/sessions?skip={skip + _PAGE}" if len(found) > _PAGE else "",
    )


@of_part(TURNS)
async def session(request: Request) -> Response:
    shown = await _session(request)
    if "fragment" in request.query_params:
        return await fragment(request, "session_transcript.html", **shown)
    return await page(request, "session.html", active="turns", **shown)


async def _session(request: Request) -> dict[str, Any]:
    name = request.path_params["session"]
    view = await ask_soon(request, sessions.show_session, name, limit=_TURNS)
    return {
        "session": view.session,
        "view": view,
        "turns": [(each, transcript(each)) for each in view.turns],
        "source": f"{place_of(name)}?fragment=transcript",
    }


@of_part(TURNS)
async def act(request: Request) -> Response:
    """Send the next message, fork after a turn, or delete."""
    form = await request.form()
    name, action = request.path_params["session"], text_of(form, "action")
    back = place_of(name)
    try:
        if action == "delete":
            removed = await ask_soon(request, sessions.delete_session, name)
            return flash_redirect(request, "/sessions", f"Session {removed.session} is deleted.")
        if action == "fork":
            made = await ask_soon(request, sessions.fork_session, name, text_of(form, "after"))
            return flash_redirect(request, place_of(made.session), f"A fork of {name}.")
        text = text_of(form, "text")
        if not text:
            return flash_redirect(request, back, "There was no text to send.", "bad")
        await ask_soon(request, sessions.send_to_session, name, text)
    except InputError as error:
        return flash_redirect(request, back, str(error), "bad")
    return flash_redirect(request, back, "Sent.")


routes = [
    Route("/sessions", overview),
    Route("/sessions/{session:path}", session),
    Route("/sessions/{session:path}", act, methods=["POST"]),
]
