"""The log on the page of a run: filtered, followed, read further back, downloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from afl.dashboard.pages.parts import number_of
from afl.dashboard.rendering import ask
from afl.dashboard.wording import iso, run_url, with_query
from afl.operations.run.log_filter import LEVELS, LogFilter
from afl.operations.run.run_log import END, LogLine, LogPage, read_page
from afl.operations.run.run_summary import run_summary

_LINES = 1_000
_BATCH = 5_000


def wanted_of(request: Request) -> LogFilter:
    """What an address asks for; a level that there is not is none."""
    given = request.query_params
    level = given.get("level", "")
    attempt = number_of(given.get("attempt", ""), 2**31)
    texts = (given.get(name, "").strip().replace("\0", "") for name in ("grep", "step"))
    grep, step = texts
    return LogFilter(level if level in LEVELS else "", grep, attempt, step)


async def log_view(request: Request, run: str) -> dict[str, Any]:
    """The newest entries, or those before a position."""
    wanted = wanted_of(request)
    before = number_of(request.query_params.get("before", ""))
    asked = asdict(wanted)
    found = await ask(request, read_page, run, before=before or END, limit=_LINES, **asked)
    here = run_url(run)
    return {
        "log": found,
        "wanted": wanted,
        "before": before,
        "earlier": with_query(here, view="log", before=found.first, **asked) if found.first else "",
        "newest": with_query(here, view="log", **asked),
        "source": with_query(f"{here}/fragment/log", before=before, **asked),
        "download": with_query(f"{here}/log.txt", **asked),
    }


async def download_log(request: Request) -> Response:
    """All entries that are asked for, as text: time, level, step, attempt, message."""
    run = (await ask(request, run_summary, request.path_params["run"])).line.run
    wanted = wanted_of(request)
    first = await ask(request, read_page, run, limit=_BATCH, **asdict(wanted))
    name = "".join(each if each.isalnum() or each in "-_." else "_" for each in run)
    return StreamingResponse(
        _texts(request, run, wanted, first),
        media_type="text/plain; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}.log"', "Cache-Control": "no-store"},
    )


async def _texts(request: Request, run: str, wanted: LogFilter, page: LogPage) -> AsyncIterator[str]:
    while page.lines:
        yield "".join(f"{_text(line)}\n" for line in page.lines)
        if len(page.lines) < _BATCH:
            return
        page = await ask(request, read_page, run, after=page.position, limit=_BATCH, **asdict(wanted))


def _text(line: LogLine) -> str:
    attempt = f" #{line.attempt}" if line.attempt else ""
    step = f" {line.step}{attempt}" if line.step else ""
    return f"{iso(line.time)} {line.level.upper():<7}{step}  {line.text}"
