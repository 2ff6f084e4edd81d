"""The agent: asks the principal for runs while it has free slots, runs them, and reports what happened.

Reports go to the spool first, so an outage of the principal stops nothing: running tasks finish, and their reports are
delivered later. When nothing runs and the principal has not answered for `retry_attempts` attempts, the agent ends with
exit code 1; its spool stays for the next agent on the same folder.

The first SIGTERM or SIGINT drains: no more runs are fetched, running ones are finished and delivered. The second ends
them.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import re
import secrets
import signal
import socket
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from afl.fleet.client import AsyncClient
from afl.fleet.errors import PrincipalAway, PrincipalFailed, RequestRefused
from afl.fleet.messages import Commands, FetchedRun, Status
from afl.fleet.reaper import Reaper
from afl.fleet.requests import FetchRun, Heartbeat, RegisterAgent
from afl.fleet.settings import FleetSettings
from afl.fleet.shipping import RequestSender, Shipper
from afl.fleet.spool import Spool
from afl.fleet.spool_folder import SpoolFolder, StreamName
from afl.fleet.task_attempt import GRACE_SECONDS, TaskResources
from afl.fleet.task_manager import TaskManager
from afl.kernel.bounds import check_name
from afl.kernel.errors import StoreError
from afl.kernel.ids import sortable_id


def new_identity(suffix: str | None = None) -> StreamName:
    """The id `{user}@{device}/AG{suffix}`, and a new incarnation.

    Without a suffix the agent gets a random one: agents on one machine must not share an id.
    """
    tail = f"-{secrets.token_hex(3)}" if suffix is None else suffix
    name = f"{_user()}@{_printable(socket.gethostname())}/AG{_printable(tail)}"
    return StreamName(check_name(name, "the agent's id"), sortable_id())


def _user() -> str:
    try:
        return _printable(getpass.getuser())
    except (KeyError, OSError):  # a number without a name, as in many containers
        return "unknown"


def _printable(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f]", "_", text)


_log = logging.getLogger(__name__)
HEARTBEAT_MS = 5_000
_FETCH_MS = 10_000
_REPEAT_SECONDS = 0.5  # the principal repeats a command until it is carried out
_ADOPT_SECONDS = 15.0
_ERRORS = (PrincipalAway, PrincipalFailed, RequestRefused)


class Agent:
    """One agent process; `await agent.run()` returns its exit code."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        suffix: str | None = None,
        folder: Path | None = None,
        limit: int | None = None,
        grace: float = GRACE_SECONDS,
        client: RequestSender | None = None,
    ) -> None:
        self.settings = settings
        self.identity = new_identity(suffix)
        self.limit = limit or settings.agent_max_concurrency
        self._folder_path = folder or settings.spool_folder
        self._grace = grace
        self._given_client = client
        self._pause = settings.default_zmq_timeout_ms / 1000
        self._runs: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        self._stop_now = asyncio.Event()
        self._slot_free = asyncio.Event()
        self._principal_silent = asyncio.Event()  # another request got no answer
        self._run_started = asyncio.Event()  # a run that the current heartbeat does not name
        self._signals = 0
        self._fetch_abandoned = False  # a fetch was canceled while it was in flight

    async def run(self, *, signals: bool = True) -> int:
        """Run from registration to the end. Without `signals` the caller calls `drain`."""
        self._client = self._given_client or AsyncClient(self.settings)
        self._folder = await asyncio.to_thread(SpoolFolder, self._folder_path)
        spool = Spool(self._folder, self.identity)
        self._shipper = Shipper(self._client, spool, self._pause, self._principal_silent.set)
        reaper = Reaper(self._grace)
        resources = TaskResources(reaper, self._grace)
        self._manager = TaskManager(spool, self.limit, resources)
        if signals:
            self._listen_for_signals()
        try:
            return await self._serve()
        finally:
            await resources.ray.close()
            await spool.close()
            await asyncio.to_thread(self._folder.close)
            if isinstance(self._client, AsyncClient):
                self._client.close()
            await asyncio.to_thread(reaper.close)

    def drain(self) -> None:
        """Stop fetching runs; on the second call, also stop the running ones."""
        self._signals += 1
        self._draining.set()
        if self._signals == 1:
            _log.info("draining: %d runs are finished first", len(self._runs))
            return
        self._stop_now.set()
        self._shipper.spool.stop_now()
        for run_id in self._manager.running:
            self._manager.stop(run_id, Status.CRASHED, "the agent was stopped")

    async def _serve(self) -> int:
        _log.info("agent %s starts (incarnation %s)", self.identity.agent_id, self.identity.incarnation)
        try:
            await self._register()
        except PrincipalAway:
            _log.error(
                "Failed to register with principal host %s. Check host is available",
                self.settings.address(self.settings.principal_port),
            )
            return 1
        async with asyncio.TaskGroup() as group:
            heartbeats = group.create_task(self._send_heartbeats())
            adopting = group.create_task(self._adopt())
            shipping = group.create_task(self._shipper.run())
            lost = await self._work()
            while self._runs:
                await asyncio.wait(self._runs)
            await asyncio.wait([adopting], timeout=0 if lost else 2 * self._pause)
            adopting.cancel()
            shipping.cancel()
            delivered = await self._deliver_rest(lost)
            heartbeats.cancel()
        if not delivered:
            _log.error(
                "not everything was delivered to the principal; the rest stays in %s", self._folder.path
            )
        return 0 if delivered and not lost else 1

    async def _register(self) -> None:
        try:
            await self._until_drained(self._client.call(RegisterAgent(self.identity.agent_id), retry=True))
        except (PrincipalFailed, RequestRefused) as error:
            _log.warning("the principal did not register this agent: %s", error)

    async def _work(self) -> bool:
        """Fetch and start runs until draining; True when the principal was lost and nothing is running."""
        failures = 0
        while not self._draining.is_set():
            if len(self._runs) >= self.limit:
                self._slot_free.clear()
                await self._until_drained(self._slot_free.wait())
                continue
            try:
                await self._fetch(sure=not failures and not self._principal_silent.is_set())
                failures = 0
            except _ERRORS as error:
                failures += 1
                _log.warning("fetching a run failed (attempt %d): %s", failures, error)
                if failures >= self.settings.retry_attempts and not self._runs:
                    _log.error("connection with principal has been lost; nothing is running")
                    return True
                await self._until_drained(asyncio.sleep(self._pause))
        if self._fetch_abandoned:
            await self._fetch_lost_reply()
        _log.info("draining: no more runs are fetched")
        return False

    async def _fetch(self, sure: bool) -> None:
        """Ask for a run; as a long poll only when the principal has answered recently."""
        self._fetch_abandoned = True
        asking = self._client.call(self._request(_FETCH_MS if sure else 0))
        if sure:
            run: FetchedRun | None = await _run_unless(asking, self._draining, self._principal_silent)
        else:
            run = await _run_unless(asking, self._draining)
            self._principal_silent.clear()
        self._fetch_abandoned = run is None and self._draining.is_set()
        if run is not None:
            self._start(run)
            await asyncio.sleep(0)  # so that the next request names it among the held runs

    def _request(self, wait_ms: int) -> FetchRun:
        held = tuple(self._manager.held)
        return FetchRun(self.identity.agent_id, self.identity.incarnation, wait_ms, held)

    def _start(self, run: FetchedRun) -> None:
        if self._manager.held.get(run.run_id) == run.epoch:
            return  # a duplicate answer
        if self._stop_now.is_set():
            return  # it has not started, so it returns to the queue
        task = asyncio.create_task(self._run(run))
        self._runs.add(task)
        self._run_started.set()
        task.add_done_callback(self._ended)

    async def _fetch_lost_reply(self) -> None:
        """The principal may have assigned a run to the canceled fetch: run it."""
        try:
            run: FetchedRun | None = await self._client.call(self._request(wait_ms=0))
        except _ERRORS as error:
            _log.warning("the last fetch got no answer: %s", error)
            return
        if run is not None:
            self._start(run)

    async def _run(self, run: FetchedRun) -> None:
        await self._manager.run(run)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._runs.discard(task)
        self._slot_free.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("a run failed inside the agent", exc_info=task.exception())

    async def _send_heartbeats(self) -> None:
        """Send heartbeats, and carry out the commands in the answers."""
        known: set[str] = set()
        while True:
            self._run_started.clear()
            try:
                commands: Commands | None = await _run_unless(
                    self._client.call(self._heartbeat()), self._run_started
                )
            except _ERRORS as error:
                _log.warning("the heartbeat got no answer: %s", error)
                self._principal_silent.set()
                await asyncio.sleep(self._pause)
                continue
            except Exception:  # without heartbeats every running run would count as crashed
                _log.exception("the heartbeat could not be sent")
                await asyncio.sleep(self._pause)
                continue
            asked = self._apply(commands or Commands())
            # Neither a command in progress nor a series of short runs may cause heartbeats without a pause.
            if self._run_started.is_set() or (asked and asked <= known):
                await asyncio.sleep(_REPEAT_SECONDS)
            known = asked

    def _heartbeat(self) -> Heartbeat:
        return Heartbeat(
            agent_id=self.identity.agent_id,
            incarnation=self.identity.incarnation,
            slots=self.limit,
            running=list(self._manager.held.items()),
            wait_ms=HEARTBEAT_MS,
        )

    def _apply(self, commands: Commands) -> set[str]:
        for run_id in commands.cancel:
            self._manager.stop(run_id, Status.CANCELED, "canceled")
        for run_id in commands.lost:
            self._manager.stop(run_id, Status.CANCELED, "this run is no longer this agent's")
        return {*commands.cancel, *commands.lost}

    async def _adopt(self) -> None:
        """Deliver the streams that dead agents on the same folder left."""
        left: list[StreamName] = []
        while not self._draining.is_set():
            try:
                left += await asyncio.to_thread(self._folder.adopt)
                while left:
                    await self._deliver(left[0])
                    del left[0]
            except Exception as error:  # the streams of others must not end this agent's own work
                known = isinstance(error, (StoreError, OSError))
                _log.error(
                    "the streams left in %s cannot be delivered now: %s",
                    self._folder.path,
                    error,
                    exc_info=not known,
                )
            await self._until_drained(asyncio.sleep(_ADOPT_SECONDS))

    async def _deliver(self, name: StreamName) -> None:
        _log.info("delivering the stream of agent %s in %s", name.agent_id, self._folder.path)
        spool = Spool(self._folder, name, adopted=True)
        try:
            # Bounded: one stream that is refused must not delay the others.
            await Shipper(self._client, spool, self._pause).run_empty(self.settings.retry_attempts)
        finally:
            await spool.close()

    async def _deliver_rest(self, lost: bool) -> bool:
        """Deliver what is left in the spool: with retries, or in one last attempt when told to stop now."""
        shipper = Shipper(self._client, self._shipper.spool, self._pause)
        if not lost and not self._stop_now.is_set():
            await _run_unless(shipper.run_empty(self.settings.retry_attempts), self._stop_now)
        return await shipper.run_empty(attempts=1)

    async def _until_drained(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await _run_unless(work, self._draining)

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)


async def _run_unless(work: Coroutine[Any, Any, Any], *events: asyncio.Event) -> Any:
    """The result of a coroutine; None when one of the events is set first, which cancels the coroutine."""
    working = asyncio.ensure_future(work)
    coming = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([working, *coming], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for future in (working, *coming):
            future.cancel()
