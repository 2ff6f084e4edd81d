"""The tasks this process has in hand: their handlers at work, and what came of them."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from afl.kernel import crashpoint, telemetry
from afl.kernel.errors import StoreError
from afl.runtime import tracing
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.handler import HandlerContext, Handlers
from afl.runtime.lease_keeper import Claim
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.policies import TIMEOUT_ERROR

_log = logging.getLogger(__name__)

_QUICK_SECONDS = 0.050
_AHEAD_SECONDS = 0.1
_MOST_AHEAD = 256


@dataclass(frozen=True, slots=True)
class Done:
    """What a handler answered, or the error it raised; `seconds` is how long it took."""

    task: TaskDefinition
    answer: Any = None
    error: BaseException | None = None
    seconds: float = 0.0

    @property
    def error_type(self) -> str:
        """The name of the error, as a workflow's Retry may list it."""
        return TIMEOUT_ERROR if isinstance(self.error, TimedOut) else type(self.error).__name__


class TimedOut(Exception):
    """The time that the workflow gives a step is up."""


@dataclass(slots=True, eq=False)
class Working:
    """A task whose handler is at work, or about to be."""

    task: TaskDefinition
    context: HandlerContext
    ends: float | None = None
    began: bool = False
    over: bool = False
    abandoned: bool = False


class Workbench:
    """Tasks in the hands of this process: `slots` of them at work at a time, and a few more that wait for a slot.

    Few wait where handlers take long, so that others can have them; many where they are quick, so that a thread finds
    its next task without a round trip to the store. `rang` is called, on the handler's thread, when there is something
    to collect.
    """

    def __init__(
        self,
        store: PersistenceAPI,
        handlers: Handlers,
        executor: Callable[[], Executor],
        slots: int,
        *,
        write: Callable[[LogDefinition], None] | None = None,
        rang: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._executor = executor
        self._slots = slots
        self._busy = 0
        self._queue: deque[Working] = deque()
        self._suspects: deque[Working] = deque()
        self._suspect: Working | None = None
        self._guard = threading.Lock()
        self._mean = 0.0
        self._write = write or store.save_log
        self._rang = rang
        self.accepts = True
        self._offered = 0
        self._working: dict[Claim, Working] = {}
        self._done: SimpleQueue[Done | None] = SimpleQueue()  # None: whoever waits has a new deadline to keep
        self._timed = False

    @property
    def room(self) -> int:
        """How many tasks more may be taken."""
        return self.limit - len(self._working) - self._offered

    @property
    def limit(self) -> int:
        """How many tasks may be in hand: those at work, and what the slots can do in a moment."""
        if not 0 < self._mean < _QUICK_SECONDS:
            return self._slots
        return self._slots + min(_MOST_AHEAD, int(self._slots * _AHEAD_SECONDS / self._mean))

    @property
    def running(self) -> int:
        """How many handlers are at work, or have answered and not been collected."""
        return len(self._working)

    def works_for(self, workflow_id: str) -> bool:
        """Whether a task of this run is in hand."""
        return any(each.task.workflow_id == workflow_id for each in self._working.values())

    @property
    def tasks(self) -> list[TaskDefinition]:
        """The tasks in hand."""
        return [each.task for each in list(self._working.values())]

    def serves(self, task: TaskDefinition) -> bool:
        """Whether a new task is to be kept here; each yes takes up room until the task starts."""
        if not self.accepts or self.room < 1 or not self._handlers.serves(task.name):
            return False
        self._offered += 1
        return True

    def start(self, tasks: list[TaskDefinition], *, here: bool = False) -> None:
        """Run the handlers of these tasks; `here` runs them on the calling thread, without a hand-over."""
        self._offered = 0
        begun = [self._take(task) for task in tasks]
        if here:
            for working in begun:
                self._begin(working)
                self._work(working)
            return
        with self._guard:
            for working in begun:
                (self._suspects if working.task.deaths else self._queue).append(working)
            waiting = len(self._queue) + (1 if self._suspects and self._suspect is None else 0)
            free = max(0, min(self._slots - self._busy, waiting))
            self._busy += free
        for _ in range(free):
            self._executor().submit(self._serve)

    def forget_offers(self) -> None:
        """What was to be kept is stored, or will never be."""
        self._offered = 0

    @property
    def waiting(self) -> list[TaskDefinition]:
        """The tasks that wait for a slot."""
        with self._guard:
            return [each.task for each in (*self._suspects, *self._queue)]

    def unstarted(self) -> list[TaskDefinition]:
        """Take the tasks that wait for a slot off the bench."""
        with self._guard:
            waiting = [*self._suspects, *self._queue]
            self._suspects.clear()
            self._queue.clear()
        for each in waiting:
            del self._working[each.task.uuid, each.task.epoch]
        return [each.task for each in waiting]

    def _take(self, task: TaskDefinition) -> Working:
        context = HandlerContext.of(
            task, self._write, lambda: self._store.renew_task(task, self._store.lease_ms)
        )
        working = self._working[task.uuid, task.epoch] = Working(task, context)
        return working

    # -- what comes of it -------------------------------------------------------------------------------------

    def collect(self, timeout: float | None = None) -> list[Done]:
        """Wait for one handler to answer or to run out of time, and take everything that is done by then."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            done = self.collect_now()
            if done:
                return done
            wait = self._wait(until)
            if wait is not None and wait <= 0 and until is not None and time.monotonic() >= until:
                return []
            try:
                first = self._done.get(timeout=wait)
            except Empty:
                continue
            if first is not None and self._off_the_bench(first):
                return [first, *self.collect_now()]

    def collect_now(self) -> list[Done]:
        """Everything that is done."""
        done = []
        while not self._done.empty():
            each = self._done.get()
            if each is not None and self._off_the_bench(each):
                done.append(each)
        return done + self._expired() if self._timed else done

    def _off_the_bench(self, done: Done) -> bool:
        """Whether it was in hand; one that is not known was given up, and its answer comes too late."""
        return self._working.pop((done.task.uuid, done.task.epoch), None) is not None

    def next_deadline(self) -> float | None:
        """In how many seconds the first handler runs out of time; None if none ever does."""
        working = list(self._working.values()) if self._timed else []
        ends = [each.ends for each in working if each.ends is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _wait(self, until: float | None) -> float | None:
        waits = [] if until is None else [until - time.monotonic()]
        deadline = self.next_deadline()
        if deadline is not None:
            waits.append(deadline)
        return max(0.0, min(waits)) if waits else None

    def _expired(self) -> list[Done]:
        now = time.monotonic()
        with self._guard:  # one that just returned has answered, however late
            late = [
                each
                for each in list(self._working.values())
                if each.ends is not None and each.ends <= now and not each.over
            ]
        for each in late:
            del self._working[each.task.uuid, each.task.epoch]
            each.context.cancel("its time is up")
            self._abandon(each)
        with self._guard:
            self._timed = any(each.ends is not None for each in list(self._working.values()))
        limit = "not done after {} ms"
        return [Done(each.task, error=TimedOut(limit.format(each.task.timeout_ms))) for each in late]

    # -- what is taken away -----------------------------------------------------------------------------------

    def keep(self, held: Iterable[Claim]) -> None:
        """These claims are still ours; tell the handlers of the others that nobody waits for them."""
        self.take_away(set(self._working).difference(held))

    def take_away(self, claims: Iterable[Claim]) -> None:
        """These claims are no longer ours."""
        for claim in claims:
            working = self._working.get(claim)
            if working is not None:
                working.context.cancel(
                    "the task was taken away: cancelled, timed out, or given to another worker"
                )

    def claims(self) -> set[Claim]:
        """The claims in hand."""
        return set(self._working)

    def give_up(self) -> list[TaskDefinition]:
        """Forget every task in hand, and tell their handlers; what they still answer is dropped."""
        with self._guard:
            self._suspects.clear()
            self._queue.clear()
        forgotten = list(self._working.values())
        self._working.clear()
        for each in forgotten:
            each.context.cancel("the worker stops")
        return [each.task for each in forgotten]

    def _abandon(self, working: Working) -> None:
        """Give the slot of a handler that may never return to another task."""
        with self._guard:
            for queue in (self._queue, self._suspects):
                if working in queue:
                    queue.remove(working)
            if working.began and not working.over:
                working.abandoned = True
                self._busy -= 1
                if self._suspect is working:
                    self._suspect = None
        self.start([])

    # -- on the handler's thread ------------------------------------------------------------------------------

    def _serve(self) -> None:
        """Work on what waits, one task after another."""
        while True:
            with self._guard:
                working = self._next()
                if working is None:
                    self._busy -= 1
                    return
                working.began = True
            self._begin(working)
            self._work(working)
            with self._guard:
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
            with self._guard:
                working.ends = time.monotonic() + task.timeout_ms / 1000
                self._timed = True
            self._done.put(None)
            if self._rang is not None:
                self._rang()
        if task.deaths or task.timeout_ms or self._store.max_deliveries == 1:
            try:
                self._store.start_tasks([task])
            except StoreError as error:
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
        with self._guard:
            working.over = True
        seconds = time.monotonic() - begun
        self._mean = seconds if not self._mean else 0.9 * self._mean + 0.1 * seconds
        telemetry.record("afl.handler.seconds", seconds, facet=working.task.name)
        self._done.put(Done(working.task, answer, error, seconds))
        if self._rang is not None:
            self._rang()

    def _call(self, working: Working) -> Any:
        task = working.task
        each = self._handlers.find(task.name)
        if each is None:
            raise LookupError(f"No handler for event task '{task.name}'")
        crashpoint.reach("handler.before")
        with tracing.handling(task):
            answer = each(task.data or {}, working.context)
        crashpoint.reach("handler.after")
        return answer
