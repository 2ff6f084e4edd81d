"""What AgentPoller and RunnerService are alike: one worker at a time, its threads, and its row in the registry."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar, Protocol

from afl.kernel.event_loop import embedding_loop, other_thread
from afl.kernel.ids import random_id
from afl.kernel.thread_pool import IDLE_SECONDS, ThreadPool
from afl.runtime.entities import ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.registration import describe_server
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.worker.options import WorkerHooks, WorkerOptions
from afl.runtime.worker.worker import Worker


class _Config(Protocol):
    server_group: str
    service_name: str
    server_name: str
    task_list: str
    max_concurrent: int


class WorkerService:
    """One that is made within a running event loop runs coroutine handlers there; start it by `asyncio.to_thread`."""

    _thread_name: ClassVar[str]

    def __init__(self, persistence: PersistenceAPI, evaluator: Evaluator) -> None:
        self._persistence = persistence
        self._evaluator = evaluator
        self._server_id = random_id()
        self._loop = embedding_loop()
        self._worker: Worker | None = None
        self._guard = threading.Lock()

    @property
    def server_id(self) -> str:
        """Its id in the registry of servers."""
        return self._server_id

    @property
    def is_running(self) -> bool:
        """Whether `start` is under way."""
        return self._worker is not None

    def cache_workflow_ast(self, workflow_id: str, ast: dict[str, Any]) -> None:
        """Know the workflow of a run without asking the store. The program stored with the run still counts."""
        self._evaluator.programs.remember(workflow_id, ast)

    def stop(self) -> None:
        """End `start` gracefully, what runs is finished first; from any thread."""
        with self._guard:
            if self._worker is not None:
                self._worker.stop()

    @cached_property
    def _pool(self) -> ThreadPool:
        return ThreadPool(self._thread_name)

    def _new_worker(self, handlers: Handlers, options: WorkerOptions, hooks: WorkerHooks) -> Worker:
        loop = other_thread(self._loop)
        return Worker(self._evaluator, handlers, options, lambda: self._pool, hooks, loop=loop)

    def _end_threads(self, worker: Worker) -> None:
        """The threads end as their handlers return; one that never does is left behind."""
        if "_pool" in vars(self):
            self._pool.shutdown(patience=0.0 if worker.in_flight.running else IDLE_SECONDS)
            del self._pool

    def _described(self, config: _Config, handlers: Sequence[str], topics: Sequence[str]) -> ServerDefinition:
        server = describe_server(
            self._server_id,
            group=config.server_group,
            service=config.service_name,
            name=config.server_name,
            handlers=handlers,
            topics=topics,
        )
        server.task_list, server.capacity = config.task_list, config.max_concurrent
        return server
