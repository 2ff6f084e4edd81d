"""The threads on which handlers are called."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from afl.kernel import crashpoint, telemetry
from afl.kernel.errors import CorruptRow
from afl.runtime import tracing
from afl.runtime.handler import Handlers
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.worker.task_in_hand import Done, Working
from afl.runtime.worker.thread_pool import Job, Threads

_log = logging.getLogger(__name__)


class HandlerThreads:
    """Calls handlers, `slots` of them at a time; the other tasks wait for a slot.

    What they answer is put into `done`, and then `rang` is called, on the handler's thread. `guard` keeps what the
    threads and their owner both look at: whether a task is over, and whether any of them is `timed`.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        handlers: Handlers,
        threads: Callable[[], Threads],
        slots: int,
        rang: Callable[[], None] | None,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._threads = threads
        self._slots = slots
        self._rang = rang
        self._queue: deque[Working] = deque()
        self._suspects: deque[Working] = deque()
        self._suspect: Working | None = None
        self.busy = 0
        self.mean = 0.0  # seconds that a handler takes
        self.guard = threading.Lock()
        self.timed = False
        self.done: SimpleQueue[Done | None] = SimpleQueue()  # None: whoever waits has a new deadline to keep

    # -- on the thread that has the tasks ---------------------------------------------------------------------

    def start(self, begun: list[Working], *, but_one: bool = False) -> Job | None:
        """Call the handlers of these, and of those that wait, as far as there are slots.

        `but_one`: one thread less than that is used. Its part is returned, for the caller to do.
        """
        with self.guard:
            for working in begun:
                (self._suspects if working.task.deaths else self._queue).append(working)
            waiting = len(self._queue) + (1 if self._suspects and self._suspect is None else 0)
            free = max(0, min(self._slots - self.busy, waiting))
            self.busy += free
        left = but_one and free > 0
        for _ in range(free - left):
            self._threads().run(self._serve)
        return self._serve if left else None

    def work_here(self, working: Working) -> None:
        """Call a handler on this thread, without a hand-over."""
        self._begin(working)
        self._work(working)

    def waiting(self) -> list[Working]:
        """Those that wait for a slot."""
        with self.guard:
            return [*self._suspects, *self._queue]

    def forget_waiting(self) -> list[Working]:
        """Those that waited for a slot and will get none."""
        with self.guard:
            waiting = [*self._suspects, *self._queue]
            self._suspects.clear()
            self._queue.clear()
        return waiting

    def abandon(self, working: Working) -> None:
        """Take the slot of a handler that may never return, so that another task can have it."""
        with self.guard:
            for queue in (self._queue, self._suspects):
                if working in queue:
                    queue.remove(working)
            if working.began and not working.over:
                working.abandoned = True
                self.busy -= 1
                if self._suspect is working:
                    self._suspect = None

    # -- on the handler's thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Work on what waits, one task after another."""
        while True:
            with self.guard:
                working = self._next()
                if working is None:
                    self.busy -= 1
                    return
                working.began = True
            self._begin(working)
            self._work(working)
            with self.guard:
                if working.abandoned:  # the slot was given away; this thread is one too many
                    return
                if working is self._suspect:
                    self._suspect = None

    def _next(self) -> Working | None:
        """The next task to work on. Of those that a worker died with only one at a time: which it was must show."""
        if self._suspects and self._suspect is None:
            self._suspect = self._suspects.popleft()
            return self._suspect
        return self._queue.popleft() if self._queue else None

    def _begin(self, working: Working) -> None:
        """Let the time of a handler run. Of some it must be written down before they begin.

        Should we die now, a suspect is to be charged; should we hang, others must see when its time was up.
        """
        task = working.task
        if task.timeout_ms:
            working.context.start_clock(task.timeout_ms)
            with self.guard:
                working.ends = time.monotonic() + task.timeout_ms / 1000
                self.timed = True
            self.done.put(None)
            if self._rang is not None:
                self._rang()
        if task.deaths or task.timeout_ms or self._store.max_deliveries == 1:
            try:
                self._store.start_tasks([task])
            except Exception as error:  # whatever it is, the work itself can be done
                _log.warning("task %s begins without a note of it: %s", task.uuid, error)

    def _work(self, working: Working) -> None:
        """Call the handler. Whatever it raises is its failure, even what would end a thread: the run must hear of it.

        Only an interrupt on the main thread is not the handler's.
        """
        begun = time.monotonic()
        answer: Any = None
        error: BaseException | None = None
        try:
            answer = self._call(working)
        except BaseException as raised:
            if (
                isinstance(raised, KeyboardInterrupt)
                and threading.current_thread() is threading.main_thread()
            ):
                raise
            error = raised
        with self.guard:
            working.over = True
        seconds = time.monotonic() - begun
        self.mean = seconds if not self.mean else 0.9 * self.mean + 0.1 * seconds
        telemetry.record("afl.handler.seconds", seconds, facet=working.task.name)
        self.done.put(Done(working.task, answer, error, seconds))
        if self._rang is not None:
            self._rang()

    def _call(self, working: Working) -> Any:
        task = working.task
        if task.unreadable:
            raise CorruptRow(task.unreadable)
        each = self._handlers.find(task.name)
        if each is None:
            raise LookupError(f"No handler for event task '{task.name}'")
        crashpoint.reach("handler.before")
        with tracing.handling(task):
            answer = each(task.data or {}, working.context)
        crashpoint.reach("handler.after")
        return answer
