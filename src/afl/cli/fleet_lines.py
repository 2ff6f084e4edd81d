"""A log line of the fleet as people read it."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from afl.fleet.messages import LogLine
from afl.fleet.protocol import LogFrame
from afl.operations.fleet.fleet_log import plain_payload

_LEVELS = {"ERROR": "red", "WARNING": "yellow", "DEBUG": "dim"}


def line_text(line: LogLine, *, task: bool = False) -> Text:
    """Time, where it comes from, and the text; what came from standard error is red. `task`: the task alone."""
    moment = datetime.fromtimestamp(line.timestamp_ms / 1000)
    text = Text(f"{moment:%H:%M:%S}.{line.timestamp_ms % 1000:03} ", "dim")
    if not task:
        text.append(f"{line.workflow_id} ", "bold").append(f"{line.workflow_instance_id[-6:]} ", "dim")
    text.append(f"{line.task_name}  ", "cyan")
    return text.append(plain_payload(line.payload), _LEVELS.get(line.level, ""))


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
