"""Claims that are in our name and in nobody's hands.

A store may do what it was asked and its reply be lost: whoever asked lives, so no death sets the task free, and does
not know of it. Until the lease ended nobody would work on it. What was asked for without an answer is therefore
looked for, and given back.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.held_claims import Claim, claiming_since, in_hand
from afl.runtime.types import WorkflowId

_log = logging.getLogger(__name__)

_MOST = 1000
_APART_SECONDS = 0.4
_SUSPICION_SECONDS = 5.0  # what was asked for may come to pass after the connection was lost


class StrayClaims:
    """Those that one claimer may have: tasks that `serves` is true of, and the runs it could not hear of."""

    def __init__(self, store: PersistenceAPI, task_list: str, serves: Callable[[str], bool]) -> None:
        self._store = store
        self._task_list = task_list
        self._serves = serves
        self._until = 0.0
        self._looked = 0.0
        self._runs: set[str] = set()
        self._seen: set[Claim] = set()

    def suspect(self, runs: Iterable[str] = ()) -> None:
        """The store has failed: tasks, and these runs, may have become ours without our knowing."""
        self._until = time.monotonic() + _SUSPICION_SECONDS
        self._runs.update(runs)

    def give_back(self) -> None:
        """Give back what is found for the second time, unless another thread may have claimed it by the first."""
        now = time.monotonic()
        if not self._seen and now > self._until:
            self._runs.clear()
            return
        if self._seen and (now - self._looked < _APART_SECONDS or claiming_since() <= self._looked):
            return
        tasks, runs = self._stray_tasks(), set(self._stray_runs())
        found = {_claim(task) for task in tasks} | runs
        again = found & self._seen
        self._return([task for task in tasks if _claim(task) in again])
        for claim in again & runs:
            self._release(claim)
        self._seen, self._looked = found - again, now

    def _stray_tasks(self) -> list[TaskDefinition]:
        ours = self._store.find_tasks(
            TaskFilter(
                state=TaskState.RUNNING, owner=self._store.owner_id, task_list=self._task_list, limit=_MOST
            )
        )
        held = in_hand().tasks  # after the look into the store: what was claimed since is not among `ours`
        return [task for task in ours if _claim(task) not in held and self._serves(task.name)]

    def _stray_runs(self) -> list[Claim]:
        found = [self._store.get_run(WorkflowId(workflow_id)) for workflow_id in self._runs]
        held = in_hand().runs
        ours = [run for run in found if run is not None and run.owner == self._store.owner_id]
        return [(run.workflow_id, run.epoch) for run in ours if run.workflow_id not in held]

    def _return(self, tasks: list[TaskDefinition]) -> None:
        if tasks:
            _log.warning("the reply to a claim was lost: %d tasks are given back", len(tasks))
            self._store.return_tasks(tasks)

    def _release(self, claim: Claim) -> None:
        workflow_id, epoch = claim
        run = self._store.get_run(WorkflowId(workflow_id))
        if run is not None and run.epoch == epoch:
            _log.warning("the reply to a claim was lost: run %s is given back", workflow_id)
            self._store.release_run(run)


def _claim(task: TaskDefinition) -> Claim:
    return task.uuid, task.epoch
