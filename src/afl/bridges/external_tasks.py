"""The external tasks of a store: those that are open, those that ended here first, and settling one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from afl.bridges.bridge import Ending, Errand
from afl.kernel import crashpoint
from afl.kernel.clock import wall_ms
from afl.kernel.errors import NotFoundError, PayloadError
from afl.kernel.ids import sortable_id
from afl.kernel.isolation import Isolation
from afl.runtime.entities import LogDefinition, NoteType, RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluation.elsewhere import Elsewhere, elsewhere_id
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import WorkflowId

T = TypeVar("T")
_log = logging.getLogger(__name__)

_PAGE = 1_000
_LOOKED_THROUGH = 200  # lines of a run's log


class Errands:
    """Asks the store for asyncio, one call at a time on a thread of its own."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._elsewhere = Elsewhere(evaluator)
        self._thread = ThreadPoolExecutor(1, "afl-bridges-store")
        self._apart = Isolation(_log, "the bridge service")

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    async def perform(self, work: Callable[..., T], *given: Any) -> T:
        """A call of the store; one that has begun goes on when its caller is cancelled."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    async def open(self, kind: str, after: str = "") -> list[Errand]:
        """Errands of a kind whose time has come, the oldest first; `after` a task: only younger ones."""
        return await self.perform(self._open, kind, after)

    async def may_begin(self, errands: Sequence[Errand]) -> list[Errand]:
        """Those of the errands whose runs are not paused."""
        runs = {errand.task.workflow_id for errand in errands}
        paused = await self.perform(self._paused, runs) if runs else set()
        return [errand for errand in errands if errand.task.workflow_id not in paused]

    async def ended(self, kind: str) -> list[TaskDefinition]:
        """Tasks that the other side may still work on, though nobody waits for them."""
        return await self.perform(self._store.ended_elsewhere, kind, _PAGE)

    async def told(self, task: TaskDefinition) -> None:
        await self.perform(self._store.told, task)

    async def find(self, errand_id: str) -> Errand | None:
        """The open errand of an id, None if it is over; NotFoundError if there never was one in this store."""
        return await self.perform(self._find, errand_id)

    async def still_open(self, errand_ids: Sequence[str]) -> set[str]:
        """Those of the errands that are not over."""
        return await self.perform(self._still_open, errand_ids)

    async def settle(self, ending: Ending) -> bool:
        """Let the step go on; False if the errand was over."""
        return await self.perform(self._settle, ending)

    async def note_waiting(self, errand: Errand, reason: str) -> None:
        """Tell in the run's log why an errand waits."""
        message = f"waits for {errand.task.via}: {reason}"
        await self.perform(self._note, errand, NoteType.WARNING, message, {"waits": reason})

    async def note_begun(self, errand: Errand) -> None:
        """Tell in the run's log that an errand waits no more, if somebody said there that it did."""
        last = await self.perform(self._last_note, errand.task)
        if last is not None and not last.details.keys().isdisjoint(("waits", "queued")):
            await self.perform(self._note, errand, NoteType.INFO, f"begun: {errand.task.via}", {})

    async def note_queued(self, errand_id: str, reason: str) -> None:
        """Tell in the run's log, once, why nobody takes up an errand that is begun; empty: somebody does now."""
        errand = await self.find(errand_id)
        if errand is None:
            return
        if not reason:
            await self.note_begun(errand)
            return
        last = await self.perform(self._last_note, errand.task)
        if last is None or last.details.get("queued") != reason:
            message = f"queued at {errand.task.via}: {reason}"
            await self.perform(self._note, errand, NoteType.WARNING, message, {"queued": reason})

    def _open(self, kind: str, after: str) -> list[Errand]:
        found: list[TaskDefinition] = []
        while True:
            page = self._store.find_tasks(
                state=TaskState.PENDING, hold=TaskHold.ELSEWHERE, via=kind, after=after, limit=_PAGE
            )
            found += page
            if len(page) < _PAGE:
                break
            after = page[-1].uuid
        now = self._store.now() if found else 0
        errands = []
        for task in found:
            with self._apart.item(f"task {task.uuid}"):
                errands.append(self._errand(task, now))
        return errands

    def _paused(self, runs: Set[str]) -> set[str]:
        found = (self._store.get_run(WorkflowId(run)) for run in runs)
        return {run.workflow_id for run in found if run is not None and run.state == RunnerState.PAUSED}

    def _errand(self, task: TaskDefinition, now: int) -> Errand:
        program = self._evaluator.programs.of_run(WorkflowId(task.workflow_id))
        return Errand(
            task,
            elsewhere_id(task),
            task.via.partition(":")[2],
            program.declaration(task.name),
            seconds_left=(task.deadline - now) / 1000 if task.deadline else None,
            seconds_to_wait=max(0, task.not_before - now) / 1000,
        )

    def _find(self, errand_id: str) -> Errand | None:
        task = self._task(errand_id)
        return None if task is None else self._errand(task, self._store.now())

    def _task(self, errand_id: str) -> TaskDefinition | None:
        """The task of an errand that is not over."""
        task = self._store.get_task(errand_id) or self._store.get_task(errand_id.rpartition("-")[0])
        if task is None:
            raise NotFoundError(f"there is no task {errand_id} in this store")
        is_open = task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE
        return task if is_open and elsewhere_id(task) == errand_id else None

    def _still_open(self, errand_ids: Sequence[str]) -> set[str]:
        return {errand_id for errand_id in errand_ids if self._task(errand_id) is not None}

    def _settle(self, ending: Ending) -> bool:
        errand = self._find(ending.id)
        if errand is None:
            return False
        crashpoint.reach("bridge.settle")
        settled = self._end(errand.task, ending)
        crashpoint.reach("bridge.settled")
        return settled

    def _end(self, task: TaskDefinition, ending: Ending) -> bool:
        if ending.result is None:
            return self._elsewhere.fail(task, ending.error, ending.kind)
        try:
            return self._elsewhere.complete(task, ending.result)
        except PayloadError as error:
            return self._elsewhere.fail(task, str(error), "PayloadError")

    def _last_note(self, task: TaskDefinition) -> LogDefinition | None:
        logs = self._store.get_logs_before(task.workflow_id, limit=_LOOKED_THROUGH)
        return next((log for _, log in logs if log.object_id == task.uuid), None)

    def _note(self, errand: Errand, kind: str, message: str, details: dict[str, Any]) -> None:
        self._store.save_log(
            LogDefinition(
                uuid=sortable_id(),
                order=wall_ms() * 1000,
                runner_id=errand.task.workflow_id,
                step_id=errand.task.step_id,
                object_id=errand.task.uuid,
                object_type="task",
                note_type=kind,
                message=message,
                details=details,
                time=wall_ms(),
            )
        )
