"""What an agent reports of one run: statuses and lines, numbered in the order they happened."""

from __future__ import annotations

import msgspec

from afl.fleet.answers import FetchedRun
from afl.fleet.records import Level, LogRecord, RunRecord, TaskRecord
from afl.fleet.spool import Spool
from afl.fleet.statuses import Status
from afl.fleet.workflow import Workflow
from afl.kernel.clock import wall_ms


class RunJournal:
    """Writes the records of one run, all under the epoch it was fetched with."""

    def __init__(self, spool: Spool, run: FetchedRun, workflow: Workflow) -> None:
        self.spool = spool
        self._run, self._workflow = run, workflow

    @property
    def run_id(self) -> str:
        return self._run.run_id

    @property
    def workflow_id(self) -> str:
        return self._workflow.id

    def run(self, status: Status, error: str = "") -> None:
        """The run has a new status."""
        self.spool.add(
            RunRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                status=status,
                at=wall_ms(),
                error=_text(error),
            )
        )

    def task(
        self,
        task_id: str,
        instance: str,
        status: Status,
        *,
        attempt: int = 1,
        exit_code: int | None = None,
        error: str = "",
    ) -> None:
        """A task has a new status."""
        self.spool.add(
            TaskRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                task_id=task_id,
                task_instance_id=instance,
                status=status,
                at=wall_ms(),
                attempt=attempt,
                exit_code=exit_code,
                error=_text(error),
            )
        )

    def log(self, task_name: str, instance: str, level: Level, count: int, lines: msgspec.Raw) -> None:
        """Lines that a task wrote: a JSON array of `count` texts."""
        self.spool.add(
            LogRecord(
                seq=self.spool.next,
                run_id=self._run.run_id,
                epoch=self._run.epoch,
                workflow_id=self._workflow.id,
                workflow_name=self._workflow.name,
                task_name=task_name,
                task_instance_id=instance,
                at=wall_ms(),
                level=level,
                count=count,
                lines=lines,
            )
        )


def _text(error: str) -> str:
    """What the system says may name files whose bytes are no text, and no such record could be sent."""
    return error.encode("utf-8", "backslashreplace").decode()
