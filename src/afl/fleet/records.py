"""What an agent ships: one ordered stream of statuses and output, numbered from 1 without a gap.

A record is JSON with a `kind`. The principal stores each number of a stream once, whatever is sent twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from afl.fleet.statuses import Status
from afl.kernel.bounds import Integer, Moment, Name, Position, Text


class Level(StrEnum):
    """How a line of output is marked; the reference's words."""

    DEBUG = "DEBUG"
    INFO = "INFO"  # standard output
    WARNING = "WARNING"
    ERROR = "ERROR"  # standard error


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="run", omit_defaults=True):
    """A run has a new status; `at` is the agent's wall clock in milliseconds."""

    seq: Position
    run_id: Name
    epoch: Position
    status: Status
    at: Moment
    error: str = ""  # cut where it is stored


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="task", omit_defaults=True):
    """A task of a run has a new status. A retried task keeps its id and gets another instance id."""

    seq: Position
    run_id: Name
    epoch: Position
    task_id: Name
    task_instance_id: Name
    status: Status
    at: Moment
    attempt: Position = 1
    exit_code: Integer | None = None
    error: str = ""  # cut where it is stored


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="log", omit_defaults=True):
    """Lines that one stream of a task wrote at about the same time.

    `lines` is a JSON array of `count` strings. It stays raw JSON on its way from the spool to the table, which is
    what makes a hundred thousand lines cheap: `msgspec.Raw(msgspec.json.encode(list_of_lines))`.
    """

    seq: Position
    run_id: Name
    epoch: Position
    workflow_id: Name
    workflow_name: Text
    task_name: Text
    task_instance_id: Name
    at: Moment
    level: Level
    count: Position
    lines: msgspec.Raw


Record: TypeAlias = RunRecord | TaskRecord | LogRecord
