"""AgentPoller: a service of its own that works on event tasks, without all of RunnerService."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afl.kernel.event_loop import embedding_loop, other_thread
from afl.kernel.ids import random_id
from afl.kernel.thread_pool import ThreadPool
from afl.runtime.entities import ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.registration import Registration, describe_server
from afl.runtime.task_handlers.handler import Callback, Handlers
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.polling import PollingWorker
from afl.runtime.worker.worker import Worker

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


class AgentPoller:
    """Claims tasks of the facets it has callbacks for, and continues their steps with what the callbacks answer.

    One that is made within a running event loop runs coroutine callbacks there; start it by `asyncio.to_thread`.
    """

    def __init__(
        self,
        persistence: PersistenceAPI,
        evaluator: Evaluator,
        config: AgentPollerConfig | None = None,
    ) -> None:
        self._persistence = persistence
        self._evaluator = evaluator
        self._config = config or AgentPollerConfig()
        self._handlers = Handlers()
        self._server_id = random_id()
        self._loop = embedding_loop()
        self._worker: Worker | None = None
        self._guard = threading.Lock()

    @property
    def server_id(self) -> str:
        """This poller in the registry of servers."""
        return self._server_id

    @property
    def is_running(self) -> bool:
        """Whether `start` is under way."""
        return self._worker is not None

    @cached_property
    def _pool(self) -> ThreadPool:
        return ThreadPool("afl-agent")

    def register(self, facet_name: str, callback: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Serve a facet, by its full or its short name; the last registration counts."""
        self._handlers.put(Callback(facet_name, callback))

    def registered_names(self) -> list[str]:
        """The names that callbacks are registered under."""
        return self._handlers.names

    def cache_workflow_ast(self, workflow_id: str, ast: dict[str, Any]) -> None:
        """Know the workflow of a run without asking the store. The program stored with the run still counts."""
        self._evaluator.programs.remember(workflow_id, ast)

    def start(self) -> None:
        """Register, work until `stop` is called from another thread or by a handler, and sign off."""
        config = self._config
        registration = Registration(self._persistence, self._server(), config.heartbeat_interval_ms)
        with self._guard:
            worker = self._worker = Worker(
                self._evaluator,
                self._handlers,
                self._options,
                lambda: self._pool,
                WorkerHooks(stored=registration.stored),
                loop=other_thread(self._loop),
            )
        problem: BaseException | None = None
        try:
            registration.enter()
            registration.running()
            worker.run()
        except BaseException as error:
            problem = error
            raise
        finally:
            try:
                worker.drain(DRAIN_SECONDS)
            finally:
                self._worker = None
                self._end_threads()
                registration.leave(problem)

    def _end_threads(self) -> None:
        """Let the threads end as their callbacks return; one that never does is left behind."""
        if "_pool" in vars(self):
            self._pool.shutdown(wait=False)
            del self._pool

    def stop(self) -> None:
        """End `start` gracefully: what runs is finished first."""
        with self._guard:
            if self._worker is not None:
                self._worker.stop()

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
        config = self._config
        server = describe_server(
            self._server_id,
            group=config.server_group,
            service=config.service_name,
            name=config.server_name,
            handlers=names,
            topics=names,
        )
        server.task_list, server.capacity = config.task_list, config.max_concurrent
        return server
