"""What an agent ships: one ordered stream of statuses and output, numbered from 1 without a gap.

A record is JSON with a `kind`. The principal stores each number of a stream once, whatever is sent twice.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from afl.fleet.statuses import Status


class Level(StrEnum):
    """How a line of output is marked; the reference's words."""

    DEBUG = "DEBUG"
    INFO = "INFO"  # standard output
    WARNING = "WARNING"
    ERROR = "ERROR"  # standard error


class RunRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="run", omit_defaults=True):
    """A run has a new status; `at` is the agent's wall clock in milliseconds."""

    seq: int
    run_id: str
    epoch: int
    status: Status
    at: int
    error: str = ""


class TaskRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="task", omit_defaults=True):
    """A task of a run has a new status. A retried task keeps its id and gets another instance id."""

    seq: int
    run_id: str
    epoch: int
    task_id: str
    task_instance_id: str
    status: Status
    at: int
    attempt: int = 1
    exit_code: int | None = None
    error: str = ""


class LogRecord(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="log", omit_defaults=True):
    """Lines that one stream of a task wrote at about the same time.

    `lines` is a JSON array of `count` strings. It stays raw JSON on its way from the spool to the table, which is
    what makes a hundred thousand lines cheap: `msgspec.Raw(msgspec.json.encode(list_of_lines))`.
    """

    seq: int
    run_id: str
    epoch: int
    workflow_id: str
    workflow_name: str
    task_name: str
    task_instance_id: str
    at: int
    level: Level
    count: int
    lines: msgspec.Raw


Record: TypeAlias = RunRecord | TaskRecord | LogRecord
