"""Calls handlers on threads, a bounded number of them at a time."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Protocol

from afl.kernel import crashpoint, event_loop, forked, telemetry
from afl.kernel.clock import wall_ms
from afl.kernel.errors import CorruptRow
from afl.kernel.presence import Process
from afl.kernel.thread_pool import Threads
from afl.kernel.traceback_text import traceback_text
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.monitoring import tracing
from afl.runtime.task_handlers.capture import handling
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.handler_context import HandlerContext
from afl.runtime.worker.results import TaskResult

_log = logging.getLogger(__name__)


class HandlerStore(Protocol):
    """What handlers need of a store while they run: a store itself, or a server that has one."""

    @property
    def lease_ms(self) -> int:
        """The lease of a task."""

    @property
    def max_deliveries(self) -> int:
        """How often a task may be lost; with 1 it must be written down that it begins."""

    def start_tasks(self, tasks: Sequence[TaskDefinition]) -> None:
        """The handlers of these tasks begin."""

    def renew_task(self, task: TaskDefinition, lease_ms: int) -> bool:
        """Extend one claim; False if it is no longer held."""

    def save_log(self, log: LogDefinition) -> None:
        """Store what a handler says."""


@dataclass(slots=True, eq=False)
class Execution:
    """A claimed task whose handler runs, or waits for a thread."""

    task: TaskDefinition
    context: HandlerContext
    ends: float | None = None  # on the monotonic clock, when its time is up
    began: bool = False
    thread: int = 0
    over: bool = False
    abandoned: bool = False


class HandlerExecutor:
    """Runs at most `slots` handlers at a time; other tasks wait for a free slot.

    Coroutines run on `loop`, or on that of the process. Results are put into `results`, and then `notify` is called, on
    the handler's thread. `guard` protects what the threads and their owner share: whether an execution is over, and
    whether any of them is `timed`.
    """

    def __init__(
        self,
        store: HandlerStore,
        handlers: Handlers,
        threads: Callable[[], Threads],
        slots: int,
        notify: Callable[[], None] | None,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._threads = threads
        self._slots = slots
        self._notify = notify
        self._loop = loop
        self._queue: deque[Execution] = deque()
        self._suspects: deque[Execution] = deque()
        self._suspect: Execution | None = None
        self.busy = 0
        self.mean = 0.0  # seconds that a handler takes
        self.guard = threading.Lock()
        self.timed = False
        self.results: SimpleQueue[TaskResult | None] = SimpleQueue()  # None: whoever waits has a new deadline

    # -- on the thread that has the tasks ---------------------------------------------------------------------

    def start(self, executions: list[Execution]) -> None:
        """Call the handlers of these, and of those that wait, as far as there are free slots."""
        with self.guard:
            for execution in executions:
                (self._suspects if _is_suspect(execution.task) else self._queue).append(execution)
            waiting = len(self._queue) + (1 if self._suspects and self._suspect is None else 0)
            free = max(0, min(self._slots - self.busy, waiting))
            self.busy += free
        for _ in range(free):
            self._threads().run(self._serve)

    def run_here(self, execution: Execution) -> None:
        """Call a handler on the calling thread."""
        self._begin(execution)
        self._work(execution)

    def forget_waiting(self) -> list[Execution]:
        """Those that waited for a slot and will get none."""
        with self.guard:
            waiting = [*self._suspects, *self._queue]
            self._suspects.clear()
            self._queue.clear()
        return waiting

    def abandon(self, execution: Execution) -> None:
        """Take the slot of a handler that may never return, so that another task can have it."""
        with self.guard:
            for queue in (self._queue, self._suspects):
                if execution in queue:
                    queue.remove(execution)
            if execution.began and not execution.over:
                execution.abandoned = True
                self.busy -= 1
                if self._suspect is execution:
                    self._suspect = None

    # -- on the handler's thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Work on what waits, one task after another."""
        while True:
            with self.guard:
                execution = self._next()
                if execution is None:
                    self.busy -= 1
                    return
                execution.began = True
            self._begin(execution)
            self._work(execution)
            with self.guard:
                if execution.abandoned:  # the slot was given away; this thread is one too many
                    return
                if execution is self._suspect:
                    self._suspect = None

    def _next(self) -> Execution | None:
        """The next task to work on. Of those that a worker died with only one at a time: which it was must show."""
        if self._suspects and self._suspect is None:
            self._suspect = self._suspects.popleft()
            return self._suspect
        return self._queue.popleft() if self._queue else None

    def _begin(self, execution: Execution) -> None:
        """Let the time of a handler run. Of some it must be written down before they begin.

        Should we die now, a suspect is to be charged; should we hang, others must see when its time was up.
        """
        task = execution.task
        task.started, execution.thread = wall_ms(), threading.get_ident()
        task.host, task.pid = Process.this()
        if task.timeout_ms:
            execution.context.start_clock(task.timeout_ms)
            with self.guard:
                execution.ends = time.monotonic() + task.timeout_ms / 1000
                self.timed = True
            self.results.put(None)
            if self._notify is not None:
                self._notify()
        if _is_suspect(task) or task.timeout_ms or self._store.max_deliveries == 1:
            try:
                self._store.start_tasks([task])
            except Exception as error:  # whatever it is, the work itself can be done
                _log.warning("task %s begins without a note of it: %s", task.uuid, error)

    def _work(self, execution: Execution) -> None:
        """Call the handler. Whatever it raises is its failure, even what would end a thread: the run must hear of it.

        Only an interrupt on the main thread is not the handler's, where Ctrl-C raises one.
        """
        begun, generation = time.monotonic(), forked.generation()
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = self._call(execution)
        except BaseException as raised:
            if isinstance(raised, KeyboardInterrupt) and _may_be_interrupted():
                raise
            error = raised
        forked.end_child_since(generation, f"the handler of {execution.task.name}", error)
        with self.guard:
            execution.over = True
        seconds, ended = time.monotonic() - begun, wall_ms()
        self.mean = seconds if not self.mean else 0.9 * self.mean + 0.1 * seconds
        telemetry.record("afl.handler.seconds", seconds, facet=execution.task.name)
        raised_at = None if error is None else traceback_text(error)
        self.results.put(TaskResult(execution.task, answer, error, seconds, ended, raised_at))
        if self._notify is not None:
            self._notify()

    def _call(self, execution: Execution) -> Any:
        task = execution.task
        if task.unreadable:
            raise CorruptRow(task.unreadable)
        each = self._handlers.find(task.name)
        if each is None:
            raise LookupError(f"No handler for event task '{task.name}'")
        crashpoint.reach("handler.before")
        with tracing.handling(task), event_loop.using(self._loop), handling(execution.context):
            answer = each(task.data or {}, execution.context)
        crashpoint.reach("handler.after")
        return answer


def _is_suspect(task: TaskDefinition) -> bool:
    """Whether an earlier attempt was lost with its worker, so that it must be known which task that was."""
    return task.deaths + task.expiries > 0


def _may_be_interrupted() -> bool:
    """Whether Ctrl-C raises KeyboardInterrupt here: commands that heed it otherwise have a handler of their own."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
