"""The tasks this process has in hand: which they are, how many more there may be, and what came of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from queue import Empty

from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.handler import HandlerContext, Handlers
from afl.runtime.in_hand import Claim
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.worker.handler_threads import HandlerThreads
from afl.runtime.worker.task_in_hand import Done, TimedOut, Working
from afl.runtime.worker.thread_pool import Job, Threads

_QUICK_SECONDS = 0.050
_AHEAD_SECONDS = 0.1
_MOST_AHEAD = 256


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
        threads: Callable[[], Threads],
        slots: int,
        *,
        write: Callable[[LogDefinition], None] | None = None,
        rang: Callable[[], None] | None = None,
    ) -> None:
        self._store = store
        self._handlers = handlers
        self._slots = slots
        self._write = write or store.save_log
        self.accepts = True
        self._offered = 0
        self._working: dict[Claim, Working] = {}
        self._threads = HandlerThreads(store, handlers, threads, slots, rang)
        self._done = self._threads.done

    @property
    def room(self) -> int:
        """How many tasks more may be taken."""
        return self.limit - len(self._working) - self._offered

    @property
    def limit(self) -> int:
        """How many tasks may be in hand: those at work, and what the slots can do in a moment."""
        mean = self._threads.mean
        if not 0 < mean < _QUICK_SECONDS:
            return self._slots
        return self._slots + min(_MOST_AHEAD, int(self._slots * _AHEAD_SECONDS / mean))

    @property
    def is_quick(self) -> bool:
        """Whether handlers are so quick that tasks are taken ahead of free slots."""
        return self.limit > self._slots

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

    def unanswered(self) -> set[Claim]:
        """The claims whose handlers have not answered."""
        return {claim for claim, each in list(self._working.items()) if not each.over}

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
                self._threads.work_here(working)
        else:
            self._threads.start(begun)

    def start_but_one(self, tasks: list[TaskDefinition]) -> Job | None:
        """As `start`, but that the caller is to be one of the threads; None if none is needed."""
        self._offered = 0
        return self._threads.start([self._take(task) for task in tasks], but_one=True)

    def forget_offers(self) -> None:
        """What was to be kept is stored, or will never be."""
        self._offered = 0

    @property
    def waiting(self) -> list[TaskDefinition]:
        """The tasks that wait for a slot."""
        return [each.task for each in self._threads.waiting()]

    def unstarted(self) -> list[TaskDefinition]:
        """Take the tasks that wait for a slot off the bench."""
        waiting = self._threads.forget_waiting()
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
        return done + self._expired() if self._threads.timed else done

    def _off_the_bench(self, done: Done) -> bool:
        """Whether it was in hand; one that is not known was given up, and its answer comes too late."""
        return self._working.pop((done.task.uuid, done.task.epoch), None) is not None

    def next_deadline(self) -> float | None:
        """In how many seconds the first handler runs out of time; None if none ever does."""
        working = list(self._working.values()) if self._threads.timed else []
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
        with self._threads.guard:  # one that just returned has answered, however late
            late = [
                each
                for each in list(self._working.values())
                if each.ends is not None and each.ends <= now and not each.over
            ]
        for each in late:
            del self._working[each.task.uuid, each.task.epoch]
            each.context.cancel("its time is up")
            self._threads.abandon(each)
            self.start([])
        with self._threads.guard:
            self._threads.timed = any(each.ends is not None for each in list(self._working.values()))
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
        self._threads.forget_waiting()
        forgotten = list(self._working.values())
        self._working.clear()
        for each in forgotten:
            each.context.cancel("the worker stops")
        return [each.task for each in forgotten]
