"""Answers for tasks that no step waits for: such an answer is the task's own."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.errors import PayloadError
from afl.runtime import tracing
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.worker.answers import Observe, error_text
from afl.runtime.worker.task_in_hand import Done


class Stepless:
    """Kept until they are stored; then `observe` is told of each, and of what was wrong with it."""

    def __init__(self, store: PersistenceAPI, observe: Observe) -> None:
        self._store = store
        self._observe = observe
        self._done: list[Done] = []

    def __bool__(self) -> bool:
        return bool(self._done)

    def add(self, done: Iterable[Done]) -> None:
        """These are to be stored."""
        self._done += done

    def tasks(self) -> list[TaskDefinition]:
        """Those that were answered; from any thread."""
        return [each.task for each in self._done]

    def store(self) -> None:
        """Store all there are."""
        if not self._done:
            return
        closed = [_closed(each) for each in self._done]
        self._store.close_tasks(closed)
        done, self._done = self._done, []
        for each, task in zip(done, closed, strict=True):
            problem = task.error["message"] if task.error else None
            self._observe(each, problem)
            tracing.task_ended(task, problem)


def _closed(done: Done) -> TaskDefinition:
    task = copy(done.task)
    task.state, task.updated = TaskState.COMPLETED, wall_ms()
    if done.error is not None:
        task.state = TaskState.FAILED
        task.error = {"message": error_text(done.error), "type": done.error_type}
    else:
        _put_result(task, done.answer)
    return task


def _put_result(task: TaskDefinition, answer: object) -> None:
    result = answer if isinstance(answer, dict) else {"result": answer}
    try:
        task.result = codec.decode(codec.encode(result, what=f"the result of {task.name}"))
    except PayloadError as error:
        task.state, task.error = TaskState.FAILED, {"message": str(error), "type": type(error).__name__}
