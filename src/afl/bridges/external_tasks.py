"""The external tasks of a store: those that are open, those that ended here first, and settling one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from afl.bridges.bridge import ExternalTask, Outcome
from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.errors import NotFoundError, PayloadError
from afl.kernel.ids import sortable_id
from afl.kernel.isolation import Isolation
from afl.runtime.entities import LogDefinition, NoteType, RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import TaskFilter
from afl.runtime.task_handlers.elsewhere import Elsewhere, elsewhere_id
from afl.runtime.types import WorkflowId

T = TypeVar("T")
_log = logging.getLogger(__name__)

_PAGE = 1_000
_LOOKED_THROUGH = 200  # lines of a run's log


class ExternalTasks:
    """The store's external tasks for asyncio, one call at a time on a thread of its own."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._elsewhere = Elsewhere(evaluator)
        self._thread = ThreadPoolExecutor(1, "afl-bridges-store")
        self._isolation = Isolation(_log, "the bridge service")

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    async def perform(self, work: Callable[..., T], *given: Any) -> T:
        """Run a call of the store; one that has started completes even when its caller is canceled."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    async def open(self, kind: str, after: str = "") -> list[ExternalTask]:
        """Open external tasks of a kind that are due, oldest first; only those younger than the task `after`."""
        return await self.perform(self._open, kind, after)

    async def startable(self, externals: Sequence[ExternalTask]) -> list[ExternalTask]:
        """Those whose runs are not paused."""
        runs = {external.task.workflow_id for external in externals}
        paused = await self.perform(self._paused, runs) if runs else set()
        return [external for external in externals if external.task.workflow_id not in paused]

    async def ended(self, kind: str) -> list[TaskDefinition]:
        """Ended tasks that the external system may still work on."""
        return await self.perform(self._store.ended_elsewhere, kind, _PAGE)

    async def told(self, task: TaskDefinition) -> None:
        await self.perform(self._store.told, task)

    async def find(self, external_id: str) -> ExternalTask | None:
        """The open external task of an id, None if it has ended; NotFoundError if this store never had it."""
        return await self.perform(self._find, external_id)

    async def still_open(self, external_ids: Sequence[str]) -> set[str]:
        """The ids of those that have not ended."""
        return await self.perform(self._still_open, external_ids)

    async def settle(self, outcome: Outcome) -> bool:
        """Store the outcome and continue the step; False if the task had ended."""
        return await self.perform(self._settle, outcome)

    async def note_waiting(self, external: ExternalTask, reason: str) -> None:
        """Write to the log of the run why a task waits."""
        message = f"waits for {external.task.via}: {reason}"
        await self.perform(self._note, external, NoteType.WARNING, message, {"waits": reason})

    async def note_started(self, external: ExternalTask) -> None:
        """Write to the log of the run that a task no longer waits, if the log says that it did."""
        last = await self.perform(self._last_note, external.task)
        if last is not None and not last.details.keys().isdisjoint(("waits", "queued")):
            await self.perform(self._note, external, NoteType.INFO, f"begun: {external.task.via}", {})

    async def note_queued(self, external_id: str, reason: str) -> None:
        """Write to the log of the run, once, why a started task is still queued; empty: it is not any more."""
        external = await self.find(external_id)
        if external is None:
            return
        if not reason:
            await self.note_started(external)
            return
        last = await self.perform(self._last_note, external.task)
        if last is None or last.details.get("queued") != reason:
            message = f"queued at {external.task.via}: {reason}"
            await self.perform(self._note, external, NoteType.WARNING, message, {"queued": reason})

    def _open(self, kind: str, after: str) -> list[ExternalTask]:
        found: list[TaskDefinition] = []
        while True:
            page = self._store.find_tasks(
                TaskFilter(
                    state=TaskState.PENDING, hold=TaskHold.ELSEWHERE, via=kind, after=after, limit=_PAGE
                )
            )
            found += page
            if len(page) < _PAGE:
                break
            after = page[-1].uuid
        now = self._store.now() if found else 0
        externals = []
        for task in found:
            with self._isolation.item(f"task {task.uuid}"):
                externals.append(self._external(task, now))
        return externals

    def _paused(self, runs: Set[str]) -> set[str]:
        found = (self._store.get_run(WorkflowId(run)) for run in runs)
        return {run.workflow_id for run in found if run is not None and run.state == RunnerState.PAUSED}

    def _external(self, task: TaskDefinition, now: int) -> ExternalTask:
        program = self._evaluator.programs.of_run(WorkflowId(task.workflow_id))
        return ExternalTask(
            task,
            elsewhere_id(task),
            task.via.partition(":")[2],
            program.declaration(task.name),
            seconds_left=(task.deadline - now) / 1000 if task.deadline else None,
            seconds_to_wait=max(0, task.not_before - now) / 1000,
        )

    def _find(self, external_id: str) -> ExternalTask | None:
        task = self._task(external_id)
        return None if task is None else self._external(task, self._store.now())

    def _task(self, external_id: str) -> TaskDefinition | None:
        """The open task of an external id."""
        task = self._store.get_task(external_id) or self._store.get_task(external_id.rpartition("-")[0])
        if task is None:
            raise NotFoundError(f"there is no task {external_id} in this store")
        is_open = task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE
        return task if is_open and elsewhere_id(task) == external_id else None

    def _still_open(self, external_ids: Sequence[str]) -> set[str]:
        return {external_id for external_id in external_ids if self._task(external_id) is not None}

    def _settle(self, outcome: Outcome) -> bool:
        external = self._find(outcome.id)
        if external is None:
            return False
        crashpoint.reach("bridge.settle")
        settled = self._end(external.task, outcome)
        crashpoint.reach("bridge.settled")
        return settled

    def _end(self, task: TaskDefinition, outcome: Outcome) -> bool:
        if outcome.result is None:
            return self._elsewhere.fail(task, outcome.error, outcome.kind)
        try:
            return self._elsewhere.complete(task, outcome.result)
        except PayloadError as error:
            return self._elsewhere.fail(task, str(error), "PayloadError")

    def _last_note(self, task: TaskDefinition) -> LogDefinition | None:
        logs = self._store.get_logs_before(task.workflow_id, limit=_LOOKED_THROUGH)
        return next((log for _, log in logs if log.object_id == task.uuid), None)

    def _note(self, external: ExternalTask, kind: str, message: str, details: dict[str, Any]) -> None:
        self._store.save_log(
            LogDefinition(
                uuid=sortable_id(),
                order=wall_ms() * 1000,
                runner_id=external.task.workflow_id,
                step_id=external.task.step_id,
                object_id=external.task.uuid,
                object_type="task",
                note_type=kind,
                message=message,
                details=details,
                time=wall_ms(),
            )
        )
