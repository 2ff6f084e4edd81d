"""AgentPoller: a service of its own that works on event tasks, without all of RunnerService."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afl.runtime.entities import ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.registration import Registration
from afl.runtime.runner.worker_service import WorkerService
from afl.runtime.task_handlers.handler import Callback, Handlers
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.polling import PollingWorker

DRAIN_SECONDS = 30.0


@dataclass
class AgentPollerConfig:
    """How a poller works. `server_name` is the host's unless given.

    `capture_logging` stores what callbacks say by `logging` in the logs of their runs, while the poller works.
    """

    service_name: str = "afl-agent"
    server_group: str = "default"
    server_name: str = ""
    task_list: str = "default"
    poll_interval_ms: int = 2000
    max_concurrent: int = 5
    heartbeat_interval_ms: int = 10000
    capture_logging: bool = False

    def __post_init__(self) -> None:
        self.server_name = self.server_name or socket.gethostname()


class AgentPoller(WorkerService):
    """Claims tasks of the facets it has callbacks for, and continues their steps with what the callbacks answer.

    One that is made within a running event loop runs coroutine callbacks there; start it by `asyncio.to_thread`.
    """

    _thread_name = "afl-agent"

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: AgentPollerConfig | None = None,
    ) -> None:
        super().__init__(persistence, evaluator)
        self._config = config or AgentPollerConfig()
        self._handlers = Handlers()

    def register(self, facet_name: str, callback: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Serve a facet, by its full or its short name; the last registration counts."""
        self._handlers.put(Callback(facet_name, callback))

    def registered_names(self) -> list[str]:
        """The names that callbacks are registered under."""
        return self._handlers.names

    def start(self) -> None:
        """Register, work until `stop` is called from another thread or by a handler, and sign off."""
        config = self._config
        registration = Registration(self._persistence, self._server(), config.heartbeat_interval_ms)
        with self._guard:
            hooks = WorkerHooks(stored=registration.stored)
            worker = self._worker = self._new_worker(self._handlers, self._options, hooks)
        problem: BaseException | None = None
        try:
            registration.enter()
            registration.running()
            worker.run()
        except BaseException as error:
            problem = error
            raise
        finally:
            registration.stopping(problem)
            try:
                worker.drain(DRAIN_SECONDS)
            finally:
                self._worker = None
                self._end_threads(worker)
                registration.leave(problem)

    def poll_once(self) -> int:
        """One poll without threads: up to `max_concurrent` tasks, one after another. How many."""
        return self._polling_worker.poll_once(self._config.max_concurrent)

    @cached_property
    def _polling_worker(self) -> PollingWorker:
        """Kept from one call to the next: it has the results that could not be stored."""
        return PollingWorker(self._evaluator, self._handlers, self._options)

    @property
    def _options(self) -> WorkerOptions:
        config = self._config
        return WorkerOptions(
            task_list=config.task_list,
            concurrency=config.max_concurrent,
            poll_seconds=config.poll_interval_ms / 1000,
            capture_logging=config.capture_logging,
        )

    def _server(self) -> ServerDefinition:
        names = self.registered_names()
        return self._described(self._config, names, names)
