"""Log lines of a fleet's run as people read them: the last that fit, and where to read on."""

from __future__ import annotations

import re
from collections import deque

from afl.fleet.client import Client
from afl.fleet.messages import LogLine, LogPage
from afl.fleet.protocol import read_mark
from afl.operations.fleet.fleet import LogFilter, LogQuery, show_run
from afl.operations.parameters import Limit

LAST = 500
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def last_lines(
    client: Client, run_id: str, *, task: str = "", text: str = "", limit: Limit = LAST
) -> LogPage:
    """The last lines of a run: of one task (by its id or name), and those that hold a text, in whatever case.

    `position` is behind the last line there is now, whether it fits or not; `more` says that older ones were left out.
    """
    query = LogQuery(run=run_id, task=task, text=text)
    if not task and not text:
        page = client.call(query.request(last=limit))
        return LogPage(lines=page.lines, position=page.position, more=len(page.lines) == limit)
    flow = show_run(client, run_id).workflow
    chosen = LogFilter(query, [] if flow is None else [flow])
    fitting: deque[LogLine] = deque(maxlen=limit)
    page = LogPage(lines=[], position=0, more=True)
    dropped = False
    while page.more:
        page = client.call(query.request(page.position))
        for line in filter(chosen.passes, page.lines):
            dropped = dropped or len(fitting) == limit
            fitting.append(line)
    return LogPage(lines=list(fitting), position=page.position, more=dropped)


def plain_payload(payload: str) -> str:
    """What the task wrote, without the mark of the stream, which its colour tells; "⋯" goes on with the line before.

    Colours are dropped, and what else would steer a terminal is shown as a character that does not.
    """
    continues, text = read_mark(payload)
    shown = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _COLOUR.sub("", text))
    return f"⋯ {shown}" if continues else shown
