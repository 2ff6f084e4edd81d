"""Runs of the fleet's workflows without a principal: what they report is kept in a list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from afl.fleet.messages import FetchedRun, Level, LogRecord, Record, RunRecord, Status, TaskRecord
from afl.fleet.protocol import whole_lines
from afl.fleet.spool import Spool
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager
from afl.fleet.workflow import Subprocess, Task, Workflow
from afl.fleet.workflow_json import encode_workflow


class ListSpool:
    """In the place of a spool."""

    full = False
    acked = 0

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.received: list[Callable[[Record], None]] = []

    @property
    def next(self) -> int:
        return len(self.records) + 1

    def add(self, record: Record) -> None:
        assert record.seq == self.next
        self.records.append(record)
        for call in self.received:
            call(record)

    def when_room(self, call: Callable[[], None]) -> None:
        raise AssertionError("it is never full")


@dataclass(frozen=True)
class Report:
    """What one run reported."""

    records: list[Record] = field(default_factory=list)

    @property
    def run_statuses(self) -> list[Status]:
        return [record.status for record in self.records if isinstance(record, RunRecord)]

    @property
    def error(self) -> str:
        return [record for record in self.records if isinstance(record, RunRecord)][-1].error

    def task(self, task_id: str) -> list[TaskRecord]:
        return [
            record for record in self.records if isinstance(record, TaskRecord) and record.task_id == task_id
        ]

    def last(self, task_id: str) -> TaskRecord:
        return self.task(task_id)[-1]

    def position(self, task_id: str, status: Status, attempt: int | None = None) -> int:
        """Where in the report a task got a status."""
        [found] = [
            record.seq
            for record in self.task(task_id)
            if record.status is status and attempt in (None, record.attempt)
        ]
        return found

    def lines(self, level: Level | None = None) -> list[str]:
        """Every line, without the mark of its stream; of one stream, or of tasks that write to one, whole."""
        found: list[str] = []
        for record in self.records:
            if isinstance(record, LogRecord) and level in (None, record.level):
                lines = msgspec.json.decode(bytes(record.lines), type=list[str])
                assert len(lines) == record.count
                found += lines
        return whole_lines(found)


def fetched(workflow: Workflow, params: Mapping[str, Any] | None = None, run_id: str = "run") -> FetchedRun:
    """The run as a principal would hand it out."""
    wire = msgspec.Raw(encode_workflow(workflow).encode())
    return FetchedRun(run_id=run_id, epoch=1, attempt=1, params=dict(params or {}), workflow=wire)


def workflow(**tasks: Task) -> Workflow:
    return Workflow("test.flow", "Flow", tasks)


def command(*argv: str, depends: tuple[str, ...] = (), **rest: Any) -> Task:
    return Task(argv[0], Subprocess(argv[0], argv[1:]), depends=depends, **rest)


def shell(program: str, *, depends: tuple[str, ...] = (), **rest: Any) -> Task:
    return command("sh", "-c", program, depends=depends, **rest)


def run(
    flow: Workflow,
    *,
    limit: int = 5,
    params: Mapping[str, Any] | None = None,
    resources: TaskResources | None = None,
    receive: Callable[[Record, TaskManager], None] | None = None,
) -> Report:
    """Run a workflow to its end; `receive` is told of every record as it is made."""

    async def running() -> Report:
        place = resources or TaskResources(grace=0.5)
        report = await reported(flow, place, limit=limit, params=params, receive=receive)
        await place.ray.close()
        return report

    return asyncio.run(running())


async def reported(
    flow: Workflow,
    place: TaskResources,
    *,
    limit: int = 5,
    params: Mapping[str, Any] | None = None,
    receive: Callable[[Record, TaskManager], None] | None = None,
) -> Report:
    """The same with resources that the caller closes."""
    spool = ListSpool()
    manager = TaskManager(cast(Spool, spool), limit, place)
    if receive is not None:
        spool.received.append(lambda record: receive(record, manager))
    status = await manager.run(fetched(flow, params))
    report = Report(spool.records)
    assert report.run_statuses[-1] is status
    return report
