"""The lines of a fleet's run as they come: a stream of server-sent events, each with a few lines as HTML."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.pages.actions import number_of
from afl.dashboard.pages.fleet_part import FLEET
from afl.dashboard.pages.parts import ask_soon, of_part
from afl.dashboard.rendering import ENVIRONMENT
from afl.dashboard.streams import apart, event_stream
from afl.fleet.errors import PrincipalAway, RequestRefused
from afl.fleet.messages import LogLine
from afl.kernel.errors import NotFoundError
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet import LogFilter, LogQuery
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import follow_logs
from afl.operations.fleet.fleet_log import plain_payload

_LONGEST = 400


@dataclass(frozen=True)
class LineFilter:
    """Which lines: of one task, and those that hold a text."""

    task: str = ""
    text: str = ""

    @classmethod
    def of(cls, request: Request) -> LineFilter:
        given = request.query_params
        return cls(given.get("task", "")[:_LONGEST], given.get("text", "")[:_LONGEST])

    @property
    def is_set(self) -> bool:
        return bool(self.task or self.text)


async def named_run(request: Request) -> RunStanding:
    """The run that the path names; NotFoundError if the principal has none of that id."""
    try:
        return await ask_soon(request, fleet.show_run, request.path_params["run"])
    except RequestRefused as refused:
        raise NotFoundError(str(refused)) from refused


@of_part(FLEET)
async def lines_stream(request: Request) -> Response:
    """Lines behind a position, for as long as the browser listens; it reads on where it was after an outage."""
    standing = await named_run(request)
    wanted = LineFilter.of(request)
    query = LogQuery(run=standing.run.run_id, task=wanted.task, text=wanted.text)
    chosen = LogFilter(query, [] if standing.workflow is None else [standing.workflow])
    return event_stream(request, _events(query, chosen, _after(request)))


def _after(request: Request) -> int:
    return number_of(request.headers.get("last-event-id") or request.query_params.get("after", ""))


async def _events(query: LogQuery, chosen: LogFilter, after: int) -> AsyncGenerator[str, None]:
    template = ENVIRONMENT.get_template("fleet_lines.html")
    yield "retry: 2000\n\n"
    try:
        async for lines in apart(follow_logs(fleet.hasty_settings(), query, chosen, after=after)):
            shown = template.render(lines=lines, plain=plain_payload)
            yield f"id: {_last(lines)}\nevent: append\ndata: {json.dumps(shown)}\n\n"
    except PrincipalAway:
        yield "event: away\ndata: {}\n\n"  # the browser comes back by itself


def _last(lines: list[LogLine]) -> int:
    return lines[-1].position
