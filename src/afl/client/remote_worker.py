"""A worker over HTTP: handlers run here, and their tasks come from a server, without a store or its password.

One thread owns the tasks in flight. Others wait for the server: one claims by long polls, one sends heartbeats, and a
few send reports.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from afl.client.remote_tasks import AWAY, RemoteTasks
from afl.client.store_client import OperationsClient
from afl.client.worker import Worker
from afl.kernel.backoff import Backoff
from afl.kernel.errors import AgentFlowError, CapabilityError
from afl.kernel.event_loop import embedding_loop
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import Settings
from afl.kernel.thread_pool import IDLE_SECONDS, ThreadPool
from afl.operations.work.offers import Offer
from afl.operations.work.service import ServiceOptions
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence.held_claims import Claim
from afl.runtime.worker.in_flight import InFlightTasks
from afl.runtime.worker.results import TaskResult

_log = logging.getLogger(__name__)

_POLL_SECONDS = 5.0
_BEAT_SECONDS = 2.0  # how soon a handler learns that its task was canceled, and its lines can be read
_REPORTS = 8  # at a time
_RETRY = Backoff(0.1, cap=5.0)


class RemoteWorker(Worker):
    """Works on the tasks of a server's store; it has handlers, and evaluates no runs."""

    def __init__(
        self, client: OperationsClient, settings: Settings, offer: Offer, options: ServiceOptions
    ) -> None:
        if offer.agents or offer.answering:
            raise CapabilityError(
                "over HTTP a worker has handlers alone; agents and answers to messages need the store"
            )
        if not offer.names:
            raise CapabilityError("over HTTP a worker needs handlers; runs are evaluated on the store")
        super().__init__(offer)
        self._options = options
        self._tasks = RemoteTasks(
            client, offer.handlers.names, settings.task_list, options.name, options.concurrency
        )
        self._stopping = threading.Event()
        self._closed = threading.Event()
        self._woken = threading.Event()
        self._room = _Room()
        self._reporting: dict[Claim, TaskResult] = {}

    def _prepare(self) -> Callable[[], None]:
        self._pool = ThreadPool("afl-handler")
        self._in_flight = InFlightTasks(
            self._tasks,
            self._offer.handlers,
            lambda: self._pool,
            self._options.concurrency,
            notify=self._woken.set,
            loop=embedding_loop(),
        )
        return self._work

    def _stop(self) -> None:
        self._stopping.set()
        self._woken.set()

    # -- the thread that owns the tasks ------------------------------------------------------------------------

    def _work(self) -> None:
        self._room.put(self._tasks.claim(self._options.concurrency, 0))  # raises if the server refuses us
        self._up.set()
        claimer = JoinableThread(self._claim, "afl-worker-claims")
        keeper = JoinableThread(self._keep, "afl-worker-heartbeats")
        claimer.start()
        keeper.start()
        with ThreadPoolExecutor(_REPORTS, thread_name_prefix="afl-worker-reports") as reports:
            try:
                self._loop(reports)
                self._drain(reports, claimer)
            finally:
                self._closed.set()
                self._room.close()
                keeper.join()
                self._pool.shutdown(patience=0.0 if self._in_flight.running else IDLE_SECONDS)

    def _loop(self, reports: ThreadPoolExecutor) -> None:
        while not self._stopping.is_set():
            self._in_flight.start(self._room.take())
            self._collect(reports)
            # Not as many as the executor would queue: their time has begun with the claim.
            self._room.offer(self._options.concurrency - self._in_flight.running)
            self._woken.wait(self._in_flight.next_deadline())
            self._woken.clear()

    def _collect(self, reports: ThreadPoolExecutor) -> None:
        for result in self._in_flight.collect_now():
            self._reporting[result.task.uuid, result.task.epoch] = result
            reports.submit(self._report, result)

    def _drain(self, reports: ThreadPoolExecutor, claimer: JoinableThread) -> None:
        """Claim no more, give back what has not started, wait for the rest, and then give that up."""
        until = time.monotonic() + self._options.shutdown_ms / 1000
        self._room.close()
        self._try(self._tasks.stop)  # which ends a long poll
        claimer.join(max(until - time.monotonic(), _POLL_SECONDS))
        self._give_back(
            [*self._room.take(), *self._in_flight.unstarted()]
        )  # also: a late claim has signed us on again
        self._collect(reports)
        while (self._in_flight.running or self._reporting) and (left := until - time.monotonic()) > 0:
            deadline = self._in_flight.next_deadline()
            self._woken.wait(left if deadline is None else min(left, deadline))
            self._woken.clear()  # before the look: what comes after it wakes again
            self._collect(reports)
        self._closed.set()
        if given_up := self._in_flight.give_up():
            self._try(lambda: self._tasks.stop(begun=given_up))

    def _give_back(self, unstarted: list[TaskDefinition]) -> None:
        self._try(lambda: self._tasks.stop(unstarted=unstarted))

    def _try(self, work: Callable[[], None]) -> None:
        """What is not told by this ends with its lease."""
        try:
            work()
        except AgentFlowError as error:
            _log.warning("the server could not be told: %s", error)

    # -- the threads that wait for the server -------------------------------------------------------------------

    def _claim(self) -> None:
        failures = 0
        while (room := self._room.wait()) > 0:
            try:
                tasks = self._tasks.claim(room, _POLL_SECONDS)
                failures = 0
            except AWAY as error:
                failures += 1
                _log.warning("tasks could not be claimed, trying again: %s", error)
                self._stopping.wait(_RETRY.delay(failures))
                continue
            except (
                Exception
            ) as error:  # we are refused, or there is a defect: it is raised at the end of the block
                self._problem = error
                self._stop()
                return
            if self._room.put(tasks):
                self._woken.set()
            else:
                self._give_back(tasks)

    def _keep(self) -> None:
        while not self._closed.wait(min(_BEAT_SECONDS, self._tasks.lease_ms / 3000)):
            claims = self._in_flight.claims() | set(self._reporting)
            if not claims:
                continue
            try:
                self._in_flight.cancel(self._tasks.heartbeat(claims))
            except AgentFlowError as error:
                _log.warning("heartbeats could not be sent, trying again: %s", error)

    def _report(self, result: TaskResult) -> None:
        failures = 0
        try:
            while not self._closed.is_set():
                try:
                    self._tasks.report(result)
                    return
                except AWAY as error:
                    failures += 1
                    _log.warning("a result could not be reported, trying again: %s", error)
                    self._closed.wait(_RETRY.delay(failures))
        except Exception as error:  # refused for good: the lease will end, and others work on it
            _log.exception("the result of task %s was refused: %s", result.task.uuid, error)
        finally:
            del self._reporting[result.task.uuid, result.task.epoch]
            self._woken.set()


class _Room:
    """How many tasks may be claimed, and those that were; between the owner of tasks and the thread that claims."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._free = 0
        self._claimed: list[TaskDefinition] = []
        self._is_closed = False

    def offer(self, free: int) -> None:
        """There is room for so many, those that were not taken yet included."""
        with self._changed:
            self._free = free - len(self._claimed)
            self._changed.notify()

    def wait(self) -> int:
        """How many to claim, once there is room for any; 0 at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._free > 0 or self._is_closed)
            return 0 if self._is_closed else self._free

    def put(self, tasks: list[TaskDefinition]) -> bool:
        """These were claimed; before more are, room has to be offered again. False if they come too late."""
        with self._changed:
            if tasks and not self._is_closed:
                self._claimed += tasks
                self._free = 0
            return not self._is_closed

    def take(self) -> list[TaskDefinition]:
        """The tasks that were claimed."""
        with self._changed:
            taken, self._claimed = self._claimed, []
            return taken

    def close(self) -> None:
        """Nothing more is to be claimed."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
