"""RunnerService: works on tasks, evaluates runs, looks after what others left, and tells over HTTP how it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.lease import LEASE_MS
from afl.kernel.metrics import process_meters
from afl.runtime.entities import ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.monitoring.store_metrics import StoreFigures
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.recovery.sweep import continue_lost_steps, fire_timers, receive_lost_signals, reclaim
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.periodic_jobs import periodic_jobs_of
from afl.runtime.runner.registration import Registration
from afl.runtime.runner.registry_handlers import RegistryHandlers
from afl.runtime.runner.status_server import StatusServer
from afl.runtime.runner.stop_signals import StopSignals
from afl.runtime.runner.system_tasks import EXECUTE_TASK_NAME, RESUME_TASK_NAME, SystemTasks
from afl.runtime.runner.worker_service import WorkerService
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.tool_registry import ToolRegistry
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.polling import PollingWorker
from afl.runtime.worker.results import TaskResult
from afl.runtime.worker.worker import Worker

__all__ = ["EXECUTE_TASK_NAME", "RESUME_TASK_NAME", "RunnerConfig", "RunnerService"]


class RunnerService(WorkerService):
    """See the module. `handlers` are functions marked with @handler, beside what the registry has.

    `started` is called once it works; `told` with whatever a handler answered, and what was wrong with it; `stopping`,
    when the service is to end, with the number of tasks in hand that it waits for. `hosts` names what else its process
    does, for the registry of servers. One that is made within a running event loop runs coroutine handlers there; start
    it by `asyncio.to_thread`.
    """

    _thread_name = "afl-runner"

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: RunnerConfig | None = None,
        tool_registry: ToolRegistry | None = None,
        *,
        handlers: Handlers | None = None,
        told: Callable[[TaskResult, str | None], None] | None = None,
        started: Callable[[], None] | None = None,
        stopping: Callable[[int], None] | None = None,
        hosts: Sequence[str] = (),
    ) -> None:
        super().__init__(persistence, evaluator)
        self._config = config or RunnerConfig()
        self._registry = tool_registry if tool_registry is not None else ToolRegistry()
        self._registry.register(EXECUTE_TASK_NAME, _only_as_task)
        self._handlers = RegistryHandlers(self._registry, self._config.topics, handlers)
        self._told = told
        self._started = started
        self._stopping = stopping
        self._hosts = list(hosts)
        self.abandoned = 0  # handlers that had not returned when the service ended
        self._began = 0
        self._status: StatusServer | None = None
        self._registration = Registration(persistence, self._server(), self._config.heartbeat_interval_ms)

    @property
    def http_port(self) -> int | None:
        """Where the status server listens, while there is one."""
        return self._status.port if self._status is not None else None

    # -- the service ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Register and work until `stop`, SIGTERM or SIGINT; then finish what runs, within the shutdown timeout.

        A second SIGINT ends that wait: what is not done goes to others.
        """
        with self._guard:
            worker = self._worker = self._make_worker()
        problem: BaseException | None = None
        self._registration = Registration(
            self._persistence, self._server(), self._config.heartbeat_interval_ms
        )
        try:
            with StopSignals(worker.stop):  # before anyone can see it running, and so expect it to heed them
                self._registration.enter()
                self._began = wall_ms()
                if self._config.http:
                    config = self._config
                    self._status = StatusServer(
                        self.status,
                        config.http_port,
                        config.http_max_port_attempts,
                        host=config.http_host,
                        more=self._figures(),
                    )
                self._registration.running()
                if self._started is not None:
                    self._started()
                worker.run()
        except BaseException as error:
            problem = error
            raise
        finally:
            self._end(worker, problem)

    def _end(self, worker: Worker, problem: BaseException | None) -> None:
        self._registration.stopping(problem)
        try:
            self._drain(worker)
        finally:
            self.abandoned, self._worker = worker.abandoned, None
            self._end_threads(worker)
            if self._status is not None:
                self._status.close()
                self._status = None
            self._registration.leave(problem)

    def _drain(self, worker: Worker) -> None:
        if self._stopping is not None:
            self._stopping(worker.in_flight.running)
        try:
            worker.drain(self._config.shutdown_timeout_ms / 1000)
        except KeyboardInterrupt:  # asked again: wait no longer, but give back what is in hand
            worker.drain(0)

    def _make_worker(self) -> Worker:
        hooks = self._hooks()
        worker = self._new_worker(self._handlers, self._options, hooks)
        self._serve_system_tasks(worker, hooks)
        return worker

    @property
    def _options(self) -> WorkerOptions:
        config = self._config
        return WorkerOptions(
            task_list=config.task_list,
            concurrency=config.max_concurrent,
            poll_seconds=config.poll_interval_ms / 1000,
            lease_ms=0 if config.lock_duration_ms == LEASE_MS else config.lock_duration_ms,
            lock_ms=config.lock_duration_ms,
            lock_every_ms=config.lock_extend_interval_ms,
            evaluates=True,
            system_tasks=SystemTasks.names,
            capture_logging=config.capture_logging,
        )

    def _hooks(self) -> WorkerHooks:
        jobs = periodic_jobs_of(
            self._persistence,
            self._evaluator,
            self._config.retention_days,
            self._config.model_calls_days,
        )
        return WorkerHooks(stored=self._stored, periodic_jobs=jobs)

    def _serve_system_tasks(self, worker: Worker, hooks: WorkerHooks) -> None:
        system = SystemTasks(self._evaluator, worker.runs.advance)
        hooks.run_system_task = lambda task: self._registration.handled(task.name, system.do(task))

    def _stored(self, result: TaskResult, problem: str | None) -> None:
        self._registration.stored(result, problem)
        if self._told is not None:
            self._told(result, problem)

    # -- one cycle, without threads ---------------------------------------------------------------------------

    def run_once(self) -> int:
        """One poll cycle on the calling thread: up to `max_concurrent` tasks, and steps that wait. How many tasks."""
        worker = self._polling_worker
        reclaim(self._evaluator)
        fire_timers(self._evaluator)
        continue_lost_steps(self._evaluator)
        receive_lost_signals(self._evaluator)
        worker.runs.advance_due()
        return worker.poll_once(self._config.max_concurrent)

    @cached_property
    def _polling_worker(self) -> PollingWorker:
        """Kept from one call to the next: it has the results that could not be stored."""
        hooks = self._hooks()
        worker = PollingWorker(self._evaluator, self._handlers, self._options, hooks)
        self._serve_system_tasks(worker, hooks)
        return worker

    # -- how it is --------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        """What `/status` shows."""
        config, worker = self._config, self._worker
        shown = (
            "server_group",
            "service_name",
            "server_name",
            "topics",
            "max_concurrent",
            "poll_interval_ms",
        )
        counts = self._registration.counts
        return {
            "server_id": self._server_id,
            "state": self._registration.server.state,
            "running": worker is not None,
            "uptime_ms": wall_ms() - self._began if self._began else 0,
            "handled": {
                name: {"handled": count.handled, "not_handled": count.not_handled}
                for name, count in counts.items()
            },
            "active_work_items": worker.in_flight.running if worker is not None else 0,
            "config": {name: getattr(config, name) for name in shown},
        }

    def _figures(self) -> Callable[[], str]:
        """What /metrics has beside the status: what this process counts, and what the store holds."""
        meters, held = process_meters(), StoreFigures(self._persistence)
        return lambda: meters.render() + held.text()

    def _server(self) -> ServerDefinition:
        served = [*self._handlers.names, *SystemTasks.names, *self._hosts]
        server = self._described(self._config, served, self._config.topics)
        server.any_event = self._handlers.any_event
        return server


def _only_as_task(payload: dict[str, Any]) -> dict[str, Any]:
    """`afl:execute` is a task of the system; the registry has the name so that nobody else takes it."""
    raise RuntimeError(f"{EXECUTE_TASK_NAME} is a task of the runner itself; it is not a facet")
