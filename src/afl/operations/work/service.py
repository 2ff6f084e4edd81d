"""A worker as a service: the handlers of some modules, or none, at work on a store."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.settings import Settings
from afl.operations.work.offers import MismatchReports
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.worker.results import TaskResult

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class ServiceOptions:
    """What a person may say about a service, beyond the settings."""

    service: str = "afl-runner"
    name: str = ""
    concurrency: int = 5
    shutdown_ms: int = 30_000
    http_port: int | None = None
    topics: tuple[str, ...] = ()


@dataclass(frozen=True)
class Notices:
    """Who is called when a service works, when a handler has answered, when it waits for tasks before it ends, and when
    a handler does not fit a facet of a workflow in the store.
    """

    started: Callable[[], None] | None = None
    told: Callable[[TaskResult, str | None], None] | None = None
    stopping: Callable[[int], None] | None = None
    mismatch: Callable[[str], None] = _log.warning


def make_service(
    store: PersistenceAPI,
    settings: Settings,
    handlers: Handlers,
    options: ServiceOptions,
    notices: Notices | None = None,
    hosts: Sequence[str] = (),
) -> RunnerService:
    """A service that has not started. `hosts` names what its process does besides."""
    pace = Pace(settings.commit_steps, settings.commit_ms / 1000, settings.foreach_window)
    config = RunnerConfig(
        service_name=options.service,
        server_name=options.name,
        topics=list(options.topics),
        task_list=settings.task_list,
        poll_interval_ms=settings.poll_interval_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        max_concurrent=options.concurrency,
        shutdown_timeout_ms=options.shutdown_ms,
        http=options.http_port is not None,
        http_port=options.http_port or 0,
        http_host=settings.http_host,
        retention_days=settings.retention_days,
        model_calls_days=settings.model_calls_days,
    )
    given = notices or Notices()
    evaluator = Evaluator(store, pace=pace)
    reports = MismatchReports(handlers, given.mismatch)
    reports.look_at_store(store)
    evaluator.programs.loaded = reports.look_at
    return RunnerService(
        store,
        evaluator,
        config,
        handlers=handlers,
        started=given.started,
        told=given.told,
        stopping=given.stopping,
        hosts=hosts,
    )


class SourceWatch:
    """The Python files below some folders as they are now, before they are loaded; looks twice a second for changes."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._seen = self._look()

    def wait(self, ended: threading.Event | None = None) -> bool:
        """Until a file has changed; False if the event is set first."""
        ended = ended or threading.Event()
        while not ended.wait(_LOOK_SECONDS):
            if self._look() != self._seen:
                return True
        return False

    @contextmanager
    def calling(self, changed: Callable[[], None]) -> Iterator[None]:
        """A block in which `changed` is called, once a file has changed, on a thread of its own."""
        ended = threading.Event()

        def watch() -> None:
            if self.wait(ended):
                changed()

        thread = JoinableThread(watch, "afl-reload")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _look(self) -> dict[Path, int]:
        found: dict[Path, int] = {}
        for folder in self._folders:
            for path in folder.rglob("*.py"):
                try:
                    found[path] = path.stat().st_mtime_ns
                except OSError:  # it went away while we looked
                    continue
        return found


def source_folders(modules: Iterable[str]) -> list[Path]:
    """Where the sources of agent modules are."""
    folders = []
    for module in modules:
        name = module.rpartition(":")[0] or module
        path = Path(name)
        folders.append(path.resolve().parent if name.endswith(".py") else Path.cwd() / name.partition(".")[0])
    return list(dict.fromkeys(folder if folder.is_dir() else Path.cwd() for folder in folders))


def start_again() -> None:
    """Replace this process by a new one with the same arguments; it never returns."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "afl", *sys.argv[1:]])
