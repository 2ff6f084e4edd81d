"""The handlers that one run keeps busy in this process: which tasks they have, and what came of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from afl.kernel import crashpoint
from afl.runtime.entities import TaskDefinition
from afl.runtime.handler import HandlerContext, Handlers


@dataclass(frozen=True, slots=True)
class Done:
    """What a handler answered, or the error it raised."""

    task: TaskDefinition
    answer: Any = None
    error: BaseException | None = None


class LocalWork:
    """Tasks in the hands of this process, never more than `limit`: the others stay pending, for anyone to claim."""

    def __init__(self, handlers: Handlers, executor: Callable[[], Executor], limit: int) -> None:
        self._handlers = handlers
        self._executor = executor
        self._limit = limit
        self._offered = 0
        self._running = 0
        self._done: SimpleQueue[Done] = SimpleQueue()

    @property
    def room(self) -> int:
        """How many tasks more may be taken."""
        return self._limit - self._running - self._offered

    @property
    def running(self) -> int:
        """How many handlers are at work, or have answered and not been collected."""
        return self._running

    def serves(self, facet: str) -> bool:
        """Whether a new task of this facet is to be kept here; each yes takes up room until the task starts."""
        if self.room < 1 or not self._handlers.serves(facet):
            return False
        self._offered += 1
        return True

    def start(self, tasks: list[TaskDefinition], *, here: bool = False) -> None:
        """Run the handlers of these tasks; `here` runs them on the calling thread, without a hand-over."""
        self._offered = 0
        self._running += len(tasks)
        for task in tasks:
            if here:
                self._work(task)
            else:
                self._executor().submit(self._work, task)

    def collect(self) -> list[Done]:
        """Wait for one handler, and take everything that is done by then."""
        done = [self._done.get()]
        while not self._done.empty():
            done.append(self._done.get())
        self._running -= len(done)
        return done

    def _work(self, task: TaskDefinition) -> None:
        """Call the handler. Whatever it raises is its failure, even what would end a thread: the run must hear of it.

        Only an interrupt on the main thread is not the handler's.
        """
        try:
            self._done.put(Done(task, self._call(task)))
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise
            self._done.put(Done(task, error=error))
        except BaseException as error:
            self._done.put(Done(task, error=error))

    def _call(self, task: TaskDefinition) -> Any:
        each = self._handlers.find(task.name)
        assert each is not None  # only tasks that are served are kept
        context = HandlerContext(task.uuid, task.step_id, task.workflow_id, task.name, task.deliveries)
        crashpoint.reach("handler.before")
        answer = each(task.data or {}, context)
        crashpoint.reach("handler.after")
        return answer
