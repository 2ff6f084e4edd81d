"""A log line of the fleet as people read it."""

from __future__ import annotations

import re
from datetime import datetime

from rich.text import Text

from afl.fleet.answers import LogLine
from afl.fleet.log_frame import LogFrame

_LEVELS = {"ERROR": "red", "WARNING": "yellow", "DEBUG": "dim"}
_MARKS = ("STDOUT ", "STDERR ")
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def line_text(line: LogLine, *, task: bool = False) -> Text:
    """Time, where it comes from, and the text; what came from standard error is red. `task`: the task alone."""
    moment = datetime.fromtimestamp(line.timestamp_ms / 1000)
    text = Text(f"{moment:%H:%M:%S}.{line.timestamp_ms % 1000:03} ", "dim")
    if not task:
        text.append(f"{line.workflow_id} ", "bold").append(f"{line.workflow_instance_id[-6:]} ", "dim")
    text.append(f"{line.task_name}  ", "cyan")
    return text.append(plain_payload(line.payload), _LEVELS.get(line.level, ""))


def plain_payload(payload: str) -> str:
    """What the task wrote, without the mark of the stream, which its colour tells.

    Colours are dropped, and what else would steer the terminal is shown as a character that does not.
    """
    for mark in _MARKS:
        payload = payload.removeprefix(mark)
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", _COLOUR.sub("", payload))


def frame_text(line: LogLine, *, verbose: bool = False) -> str:
    """The line in the form of the reference's logs."""
    return LogFrame(
        line.workflow_id,
        line.workflow_name,
        line.workflow_instance_id,
        line.task_name,
        line.task_instance_id,
        line.timestamp_ms,
        line.level,
        line.payload,
    ).shown(verbose)
