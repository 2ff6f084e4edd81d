"""Files of turns for browsers: pictures of known kinds as such, and all else to be saved."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.dashboard.pages.parts import ask_soon, of_part
from afl.dashboard.pages.turns import TURNS
from afl.operations.turn.turn_files import read_file

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})  # which can hold no script
_POLICY = "default-src 'none'; sandbox; frame-ancestors 'none'"


@of_part(TURNS)
async def file(request: Request) -> Response:
    """The bytes of a file; a browser never takes them for a page."""
    card, number = request.path_params["card"], request.path_params["number"]
    found = await ask_soon(request, read_file, card, number)
    picture = found.media_type in PICTURES
    name = quote(found.name or f"file-{number}", safe="")
    headers = {
        "Content-Security-Policy": _POLICY,
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": f"{'inline' if picture else 'attachment'}; filename*=UTF-8''{name}",
    }
    return Response(
        found.data, headers=headers, media_type=found.media_type if picture else "application/octet-stream"
    )


routes = [Route("/turns/files/{card}/{number:int}", file)]
