"""The principal: assembled from its parts, started, served, stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from afl.fleet.principal.catalog import Catalog
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.log_sockets import LogPublisher, LogReceiver
from afl.fleet.principal.monitor import Monitor
from afl.fleet.principal.registry import Registry
from afl.fleet.principal.retention import Retention
from afl.fleet.principal.scheduler import Scheduler
from afl.fleet.principal.sockets import RequestServer, Sockets
from afl.fleet.principal.store import FleetStore
from afl.fleet.principal.verbs import answer
from afl.fleet.security import check_bind, load_principal_keys
from afl.fleet.settings import FleetSettings, expanded
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Database, connect
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation
from afl.kernel.private_files import make_private_folder

_log = logging.getLogger(__name__)
_GRACE_S = 2.0


class Principal:
    """Serves until `stop` is called; an error in one of its parts ends it with that error."""

    def __init__(self, settings: FleetSettings, database: Database, *, insecure: bool = False) -> None:
        keys = load_principal_keys(settings.keys_folder)
        check_bind(settings.principal_host, keys, insecure)
        self.settings = settings
        store = FleetStore(database, lease_ms=settings.agent_heartbeat_timeout_ms)
        catalog = Catalog(Path(expanded(settings.workflow_dir)))
        self.context = PrincipalContext(store, catalog, Registry(store.wall))
        self._monitor = Monitor(self.context)
        self._scheduler = Scheduler(self.context, settings.scheduler_start_poll_frequency_ms / 1000)
        self._stopping = asyncio.Event()
        self._sockets = Sockets(settings, keys)
        self._request_server = RequestServer(self._sockets.api, lambda frame: answer(self.context, frame))
        self.context.publish = LogPublisher(self._sockets.live).publish
        catalog.on_change = self._scheduler.refresh

    @property
    def ports(self) -> tuple[int, int, int]:
        """The ports of requests, received log lines and published log lines."""
        return self._sockets.ports()

    def stop(self) -> None:
        """Stop once the requests in flight are answered."""
        self._stopping.set()

    async def serve(self, *, scheduler: bool = True, ready: Callable[[], None] | None = None) -> None:
        """Serve until stopped, or until a part fails."""
        parts: list[asyncio.Task[None]] = []
        try:
            await self.context.catalog.refresh()
            await self._monitor.start()
            parts = [asyncio.create_task(part) for part in self._parts(scheduler)]
            if ready is not None:
                ready()
            await self._until_stopped(parts)
        finally:
            self.context.close()
            await self._request_server.finish(_GRACE_S)
            await cancel_and_wait(parts)
            self._sockets.close()

    def _parts(self, scheduler: bool) -> list[Coroutine[Any, Any, None]]:
        parts = [
            self._request_server.serve(),
            LogReceiver(self._sockets.logs, self.context).serve(),
            self._monitor.serve(),
            self._refresh(),
        ]
        if self._sockets.authenticator is not None:
            parts.append(self._sockets.authenticator.serve())
        if self.settings.retention_days:
            parts.append(Retention(self.context, self.settings.retention_days).serve())
        if scheduler:
            parts.append(self._scheduler.serve())
        return parts

    async def _until_stopped(self, parts: list[asyncio.Task[None]]) -> None:
        stopped = asyncio.create_task(self._stopping.wait())
        await asyncio.wait([stopped, *parts], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        for part in parts:
            if part.done():
                part.result()

    async def _refresh(self) -> None:
        """Read the workflow folder at an interval."""
        isolation = Isolation(_log, "the principal")
        while True:
            with isolation.item("the workflow folder"):
                await self.context.catalog.refresh()
            await asyncio.sleep(self.settings.workflow_dir_refresh_frequency_s)


async def run_principal(settings: FleetSettings) -> None:
    """Serve until SIGTERM or SIGINT. Prints one line when it is ready."""
    with open_database(settings) as database:
        principal = Principal(settings, database)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, principal.stop)
        with suppress(asyncio.CancelledError):
            await principal.serve(ready=lambda: _say_ready(principal))


def open_database(settings: FleetSettings) -> Database:
    """The principal's store; the folder of a file is made if need be."""
    url = settings.database_url
    if url.startswith("sqlite:///"):
        folder = Path(url.removeprefix("sqlite:///")).parent
        try:
            make_private_folder(folder)
        except OSError as error:
            raise StoreError(f"CDKTR_DB_PATH: {folder} cannot be made: {error.strerror}") from error
    return connect(url)


def _say_ready(principal: Principal) -> None:
    requests, logs, live = principal.ports
    address = principal.settings.address(requests)
    workflows = len(principal.context.catalog.workflows)
    print(
        f"principal ready on {address} (logs {logs}, {live}), {workflows} workflows",
        flush=True,
    )
