"""A principal's store with clocks that a test moves, and short names for its transitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from afl.fleet.messages import (
    Commands,
    Level,
    LogRecord,
    Record,
    RunDetail,
    RunRecord,
    RunView,
    Status,
    TaskRecord,
)
from afl.fleet.principal import monitor, reports, runs, views
from afl.fleet.principal.store import Change, FleetStore
from afl.fleet.requests import Ship
from afl.kernel.database import Database, Row

T = TypeVar("T")
LEASE_MS = 30_000
START_MS = 1_700_000_000_000


class Keeper:
    """A store whose time stands still until a test moves it."""

    def __init__(self, database: Database) -> None:
        self.now = 1_000_000
        self.store = FleetStore(
            database, lease_ms=LEASE_MS, clock=lambda: self.now, wall=lambda: START_MS + self.now
        )
        self._numbers: dict[str, int] = {}

    def change(self, work: Callable[[Change], T]) -> T:
        return self.store.change(work)[0]

    def enqueue(
        self, run_id: str, workflow_id: str = "w", *, requeues: int = 0, behind: bool = False
    ) -> bool:
        order = runs.NewRun(
            run_id, workflow_id, workflow_id.upper(), '{"id":"w"}', requeues, {"n": 1}, "test"
        )
        return self.change(lambda change: runs.enqueue(change, order, behind=behind))

    def claim(self, incarnation: str, held: Sequence[str] | None = None) -> Row | None:
        return self.change(lambda change: runs.claim(change, f"agent {incarnation}", incarnation, held=held))

    def beat(self, incarnation: str, *running: tuple[str, int]) -> Commands:
        agent = f"agent {incarnation}"
        return self.change(lambda change: reports.heartbeat(change, agent, incarnation, running))

    def say(self, incarnation: str, run_id: str, epoch: int, status: Status) -> int:
        """Ship one status of a run as the next record of the incarnation."""
        return self.ship(
            incarnation,
            RunRecord(seq=self.next(incarnation), run_id=run_id, epoch=epoch, status=status, at=START_MS),
        )

    def say_task(self, incarnation: str, run_id: str, epoch: int, status: Status, task_id: str = "t") -> int:
        record = TaskRecord(
            seq=self.next(incarnation),
            run_id=run_id,
            epoch=epoch,
            task_id=task_id,
            task_instance_id=f"{task_id}-1",
            status=status,
            at=START_MS,
        )
        return self.ship(incarnation, record)

    def ship(self, incarnation: str, *records: Record, oldest: int = 1) -> int:
        ship = Ship(
            agent_id=f"agent {incarnation}", incarnation=incarnation, records=list(records), oldest=oldest
        )
        return self.change(lambda change: reports.store_records(change, ship)).acked

    def next(self, incarnation: str) -> int:
        self._numbers[incarnation] = self._numbers.get(incarnation, 0) + 1
        return self._numbers[incarnation]

    def expire(self) -> list[monitor.ExpiredRun]:
        return self.change(monitor.expire)

    def cancel(self, run_id: str) -> Row:
        return self.change(lambda change: runs.cancel(change, run_id, "test"))

    def run(self, run_id: str) -> RunView:
        return self.detail(run_id).run

    def detail(self, run_id: str) -> RunDetail:
        detail = self.store.read(lambda tx: views.run_detail(tx, run_id))
        assert detail is not None
        return detail


def log_record(seq: int, *lines: str, run_id: str = "r", at: int = START_MS) -> LogRecord:
    return LogRecord(
        seq=seq,
        run_id=run_id,
        epoch=1,
        workflow_id="w",
        workflow_name="W",
        task_name="T",
        task_instance_id="t-1",
        at=at,
        level=Level.INFO,
        count=len(lines),
        lines=msgspec.Raw(msgspec.json.encode(list(lines))),
    )
