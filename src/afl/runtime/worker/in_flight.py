"""The tasks that a worker has claimed and not yet reported: which they are, and how many more it may claim."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable
from queue import Empty

from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError
from afl.kernel.thread_pool import Threads
from afl.kernel.traceback_text import stack_text
from afl.runtime.entities import LogDefinition, TaskDefinition
from afl.runtime.persistence.held_claims import Claim
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.worker.executor import Execution, HandlerExecutor, HandlerStore
from afl.runtime.worker.results import HandlerTimeout, TaskResult

_QUICK_SECONDS = 0.050
_AHEAD_SECONDS = 0.1
_MOST_AHEAD = 256


class InFlightTasks:
    """At most `slots` handlers run at a time; a few more tasks wait for a slot.

    Few wait where handlers take long, so that other workers can have them; many where they are quick, so that a thread
    finds its next task without a round trip to the store. `notify` is called, on the handler's thread, when there is a
    result to collect.
    """

    def __init__(
        self,
        store: HandlerStore,
        handlers: Handlers,
        threads: Callable[[], Threads],
        slots: int,
        *,
        write: Callable[[LogDefinition], None] | None = None,
        write_soon: Callable[[LogDefinition], None] | None = None,
        notify: Callable[[], None] | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        lease_ms: int = 0,
        started: Callable[[TaskDefinition], object] = lambda task: None,
    ) -> None:
        if not isinstance(slots, int):
            raise InputError(f"the concurrency of a worker is {slots!r:.80}; give a whole number, 1 or more")
        if slots < 1:
            raise InputError(
                f"the concurrency of a worker is {slots}: it could not run anything; give 1 or more"
            )
        self._store = store
        self._lease_ms = lease_ms
        self._started = started
        self._handlers = handlers
        self._slots = slots
        self._write = write or store.save_log
        self._write_soon = write_soon
        self.accepts = True
        self._offered = 0
        self._executions: dict[Claim, Execution] = {}
        self._by_run: Counter[str] = Counter()
        self._executor = HandlerExecutor(store, handlers, threads, slots, notify, loop)
        self._results = self._executor.results

    @property
    def room(self) -> int:
        """How many tasks more may be taken."""
        return self.limit - len(self._executions) - self._offered

    @property
    def limit(self) -> int:
        """How many tasks may be in flight: one per slot, and what the slots can do in a tenth of a second."""
        mean = self._executor.mean
        if not 0 < mean < _QUICK_SECONDS:
            return self._slots
        return self._slots + min(_MOST_AHEAD, int(self._slots * _AHEAD_SECONDS / mean))

    @property
    def is_quick(self) -> bool:
        """Whether handlers are so quick that tasks are taken ahead of free slots."""
        return self.limit > self._slots

    @property
    def running(self) -> int:
        """How many tasks are in flight: waiting for a slot, running, or with a result that is not collected."""
        return len(self._executions)

    def has_task_of(self, workflow_id: str) -> bool:
        """Whether a task of this run is in flight."""
        return self._by_run[workflow_id] > 0

    def by_run(self) -> Counter[str]:
        """How many tasks of each run are in flight."""
        return self._by_run.copy()

    def unfinished(self) -> set[Claim]:
        """The claims whose handlers have not returned."""
        return {claim for claim, each in list(self._executions.items()) if not each.over}

    def serves(self, task: TaskDefinition) -> bool:
        """Whether a new task is to be claimed at its creation; each yes takes up room until tasks are started."""
        if not self.accepts or self.room < 1 or not self._handlers.serves(task.name):
            return False
        self._offered += 1
        return True

    def start(self, tasks: list[TaskDefinition], *, here: bool = False) -> None:
        """Run the handlers of these tasks; `here` runs them on the calling thread."""
        self._offered = 0
        executions = [self._add(task) for task in tasks]
        for task in tasks:
            self._started(task)
        if here:
            for execution in executions:
                self._executor.run_here(execution)
        else:
            self._executor.start(executions)

    def forget_offers(self) -> None:
        """The tasks that `serves` said yes to are stored, or never will be."""
        self._offered = 0

    def unstarted(self) -> list[TaskDefinition]:
        """The tasks that wait for a slot; they are in flight no longer."""
        waiting = self._executor.forget_waiting()
        for each in waiting:
            self._pop(each.task)
        return [each.task for each in waiting]

    def _add(self, task: TaskDefinition) -> Execution:
        context = HandlerContext.of(
            task,
            self._write,
            lambda: self._store.renew_task(task, self._lease_ms or self._store.lease_ms),
            self._write_soon,
        )
        execution = self._executions[task.uuid, task.epoch] = Execution(task, context)
        self._by_run[task.workflow_id] += 1
        return execution

    def _pop(self, task: TaskDefinition) -> bool:
        """Whether the task was in flight; it is no longer."""
        found = self._executions.pop((task.uuid, task.epoch), None) is not None
        if found:
            self._by_run[task.workflow_id] -= 1
            if not self._by_run[task.workflow_id]:
                del self._by_run[task.workflow_id]
        return found

    # -- results ----------------------------------------------------------------------------------------------

    def collect(self, timeout: float | None = None) -> list[TaskResult]:
        """Wait for a handler to return or to run out of time, and take every result there is by then."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            results = self.collect_now()
            if results:
                return results
            wait = self._wait(until)
            if wait is not None and wait <= 0 and until is not None and time.monotonic() >= until:
                return []
            try:
                first = self._results.get(timeout=wait)
            except Empty:
                continue
            if first is not None and self._pop(first.task):
                return [first, *self.collect_now()]

    def collect_now(self) -> list[TaskResult]:
        """Every result there is."""
        results = []
        while not self._results.empty():
            result = self._results.get()
            if result is not None and self._pop(result.task):  # if not, it was given up: this comes too late
                results.append(result)
        return results + self._expired() if self._executor.timed else results

    def next_deadline(self) -> float | None:
        """In how many seconds the first handler runs out of time; None if none ever does."""
        timed = list(self._executions.values()) if self._executor.timed else []
        ends = [each.ends for each in timed if each.ends is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _wait(self, until: float | None) -> float | None:
        waits = [] if until is None else [until - time.monotonic()]
        deadline = self.next_deadline()
        if deadline is not None:
            waits.append(deadline)
        return max(0.0, min(waits)) if waits else None

    def _expired(self) -> list[TaskResult]:
        now = time.monotonic()
        with self._executor.guard:  # one that just returned has a result, however late
            late = [
                each
                for each in list(self._executions.values())
                if each.ends is not None and each.ends <= now and not each.over
            ]
        stacks = {each.task.uuid: stack_text(each.thread) for each in late}
        for each in late:
            self._pop(each.task)
            each.context.cancel("its time is up")
            self._executor.abandon(each)
            self.start([])
        with self._executor.guard:
            self._executor.timed = any(each.ends is not None for each in list(self._executions.values()))
        limit = "not done after {} ms"
        return [
            TaskResult(
                each.task,
                error=HandlerTimeout(limit.format(each.task.timeout_ms)),
                ended=wall_ms(),
                raised_at=stacks[each.task.uuid],
            )
            for each in late
        ]

    # -- claims that are lost ----------------------------------------------------------------------------------

    def cancel(self, claims: Iterable[Claim]) -> None:
        """These claims are lost: tell their handlers that nobody waits for them."""
        for claim in claims:
            execution = self._executions.get(claim)
            if execution is not None:
                execution.context.cancel(
                    "the task was taken away: canceled, timed out, or given to another worker"
                )

    def claims(self) -> set[Claim]:
        """The claims of the tasks in flight; from any thread."""
        return set(self._executions)

    def give_up(self) -> list[TaskDefinition]:
        """Forget every task in flight, and tell their handlers; their results are dropped."""
        self._executor.forget_waiting()
        forgotten = list(self._executions.values())
        self._executions.clear()
        self._by_run.clear()
        for each in forgotten:
            each.context.cancel("the worker stops")
        return [each.task for each in forgotten]
