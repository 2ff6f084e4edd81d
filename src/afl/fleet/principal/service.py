"""The principal as a whole: made of its parts, started, served, ended."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from afl.fleet.principal.catalogue import Catalogue
from afl.fleet.principal.context import Desk
from afl.fleet.principal.log_sockets import Intake, Publisher
from afl.fleet.principal.monitor import Monitor
from afl.fleet.principal.registry import Registry
from afl.fleet.principal.retention import Retention
from afl.fleet.principal.scheduler import Scheduler
from afl.fleet.principal.sockets import Counter, Sockets
from afl.fleet.principal.store import FleetStore
from afl.fleet.principal.verbs import answer
from afl.fleet.security import check_bind, load_principal_keys
from afl.fleet.settings import FleetSettings, expanded
from afl.kernel.cancelling import cancel_and_wait
from afl.kernel.database import Database, connect
from afl.kernel.errors import StoreError
from afl.kernel.isolation import Isolation
from afl.kernel.private_files import make_private_folder

_log = logging.getLogger(__name__)
_GRACE_S = 2.0


class Principal:
    """Serves until `stop` is called; whatever ends one of its parts ends it with that error."""

    def __init__(self, settings: FleetSettings, database: Database, *, insecure: bool = False) -> None:
        keys = load_principal_keys(settings.keys_folder)
        check_bind(settings.principal_host, keys, insecure)
        self.settings = settings
        store = FleetStore(database, lease_ms=settings.agent_heartbeat_timeout_ms)
        catalogue = Catalogue(Path(expanded(settings.workflow_dir)))
        self.desk = Desk(store, catalogue, Registry(store.wall))
        self._monitor = Monitor(self.desk)
        self._scheduler = Scheduler(self.desk, settings.scheduler_start_poll_frequency_ms / 1000)
        self._stopping = asyncio.Event()
        self._sockets = Sockets(settings, keys)
        self._counter = Counter(self._sockets.api, lambda frame: answer(self.desk, frame))
        self.desk.publish = Publisher(self._sockets.live).publish
        catalogue.on_change = self._scheduler.refresh

    @property
    def ports(self) -> tuple[int, int, int]:
        """Requests, log intake, live lines."""
        return self._sockets.ports()

    def stop(self) -> None:
        """End as soon as what is under way is answered."""
        self._stopping.set()

    async def serve(self, *, scheduler: bool = True, ready: Callable[[], None] | None = None) -> None:
        """Until stopped, or until a part of it fails."""
        parts: list[asyncio.Task[None]] = []
        try:
            await self.desk.catalogue.refresh()
            await self._monitor.start()
            parts = [asyncio.create_task(part) for part in self._parts(scheduler)]
            if ready is not None:
                ready()
            await self._until_stopped(parts)
        finally:
            self.desk.close()
            await self._counter.finish(_GRACE_S)
            await cancel_and_wait(parts)
            self._sockets.close()

    def _parts(self, scheduler: bool) -> list[Coroutine[Any, Any, None]]:
        parts = [
            self._counter.serve(),
            Intake(self._sockets.intake, self.desk).serve(),
            self._monitor.serve(),
            self._refresh(),
        ]
        if self._sockets.gate is not None:
            parts.append(self._sockets.gate.serve())
        if self.settings.retention_days:
            parts.append(Retention(self.desk, self.settings.retention_days).serve())
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
        """Look at the workflow folder now and then."""
        apart = Isolation(_log, "the principal")
        while True:
            with apart.item("the workflow folder"):
                await self.desk.catalogue.refresh()
            await asyncio.sleep(self.settings.workflow_dir_refresh_frequency_s)


def run_principal(settings: FleetSettings, *, insecure: bool = False, scheduler: bool = True) -> None:
    """Serve until SIGTERM or SIGINT. Prints one line when it can be reached."""
    asyncio.run(_run(settings, insecure, scheduler))


async def _run(settings: FleetSettings, insecure: bool, scheduler: bool) -> None:
    with open_database(settings) as database:
        principal = Principal(settings, database, insecure=insecure)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, principal.stop)
        with suppress(asyncio.CancelledError):
            await principal.serve(scheduler=scheduler, ready=lambda: _say_ready(principal))


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
    requests, intake, live = principal.ports
    address = principal.settings.address(requests)
    workflows = len(principal.desk.catalogue.workflows)
    print(
        f"principal ready on {address} (logs {intake}, {live}), {workflows} workflows",
        flush=True,
    )
