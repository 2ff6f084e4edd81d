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
from afl.fleet.shipping import Line, Shipper
from afl.fleet.spool import Spool
from afl.fleet.spool_folder import SpoolFolder, StreamName
from afl.fleet.task_attempt import GRACE_SECONDS, Workplace
from afl.fleet.task_manager import TaskManager
from afl.kernel.bounds import check_name
from afl.kernel.errors import StoreError
from afl.kernel.ids import sortable_id


def new_identity(suffix: str | None = None) -> StreamName:
    """`{user}@{device}/AG{suffix}`, and an incarnation of its own.

    Without a suffix the agent gets a random one: agents on one machine must never look like one.
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
    """One agent process; `await agent.run()` gives its exit code."""

    def __init__(
        self,
        settings: FleetSettings,
        *,
        suffix: str | None = None,
        folder: Path | None = None,
        limit: int | None = None,
        grace: float = GRACE_SECONDS,
        line: Line | None = None,
    ) -> None:
        self.settings = settings
        self.identity = new_identity(suffix)
        self.limit = limit or settings.agent_max_concurrency
        self._folder_path = folder or settings.data_folder / "agent"
        self._grace = grace
        self._line = line
        self._pause = settings.default_zmq_timeout_ms / 1000
        self._runs: set[asyncio.Task[None]] = set()
        self._draining = asyncio.Event()
        self._hurry = asyncio.Event()
        self._free = asyncio.Event()
        self._doubt = asyncio.Event()  # the principal did not answer something else
        self._begun = asyncio.Event()  # a run that the heartbeat under way does not name
        self._signals = 0
        self._abandoned = False  # a request for a run was given up while it was under way

    async def run(self, *, signals: bool = True) -> int:
        """From registration to the end. Without `signals` it is for the caller to call `drain`."""
        self._client = self._line or AsyncClient(self.settings)
        self._folder = await asyncio.to_thread(SpoolFolder, self._folder_path)
        spool = Spool(self._folder, self.identity)
        self._shipper = Shipper(self._client, spool, self._pause, self._doubt.set)
        reaper = Reaper(self._grace)
        workplace = Workplace(reaper, self._grace)
        self._manager = TaskManager(spool, self.limit, workplace)
        if signals:
            self._listen_for_signals()
        try:
            return await self._live()
        finally:
            await workplace.ray.close()
            await spool.close()
            await asyncio.to_thread(self._folder.close)
            if isinstance(self._client, AsyncClient):
                self._client.close()
            await asyncio.to_thread(reaper.close)

    def drain(self) -> None:
        """No more runs; the second time, an end to those in hand."""
        self._signals += 1
        self._draining.set()
        if self._signals == 1:
            _log.info("draining: %d runs in hand are finished first", len(self._runs))
            return
        self._hurry.set()
        self._shipper.spool.hurry()
        for run_id in self._manager.running:
            self._manager.stop(run_id, Status.CRASHED, "the agent was stopped")

    async def _live(self) -> int:
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
            beating = group.create_task(self._beat())
            adopting = group.create_task(self._adopt())
            shipping = group.create_task(self._shipper.run())
            lost = await self._work()
            while self._runs:
                await asyncio.wait(self._runs)
            await asyncio.wait([adopting], timeout=0 if lost else 2 * self._pause)
            adopting.cancel()
            shipping.cancel()
            delivered = await self._deliver_rest(lost)
            beating.cancel()
        if not delivered:
            _log.error("the principal did not take everything; the rest waits in %s", self._folder.path)
        return 0 if delivered and not lost else 1

    async def _register(self) -> None:
        try:
            await self._until_drained(self._client.call(RegisterAgent(self.identity.agent_id), retry=True))
        except (PrincipalFailed, RequestRefused) as error:
            _log.warning("the principal did not register this agent: %s", error)

    async def _work(self) -> bool:
        """Fetch and start runs until draining; True when the principal was lost and nothing is left to do."""
        failures = 0
        while not self._draining.is_set():
            if len(self._runs) >= self.limit:
                self._free.clear()
                await self._until_drained(self._free.wait())
                continue
            try:
                await self._fetch(sure=not failures and not self._doubt.is_set())
                failures = 0
            except _ERRORS as error:
                failures += 1
                _log.warning("no run can be fetched (attempt %d): %s", failures, error)
                if failures >= self.settings.retry_attempts and not self._runs:
                    _log.error("connection with principal has been lost; nothing is running")
                    return True
                await self._until_drained(asyncio.sleep(self._pause))
        if self._abandoned:
            await self._fetch_the_lost()
        _log.info("draining: no run is fetched any more")
        return False

    async def _fetch(self, sure: bool) -> None:
        """Ask for a run; for a long time only when it is sure that the principal is there."""
        self._abandoned = True
        asking = self._client.call(self._request(_FETCH_MS if sure else 0))
        if sure:
            run: FetchedRun | None = await _unless(asking, self._draining, self._doubt)
        else:
            run = await _unless(asking, self._draining)
            self._doubt.clear()
        self._abandoned = run is None and self._draining.is_set()
        if run is not None:
            self._start(run)
            await asyncio.sleep(0)  # so that the next request names it among those in hand

    def _request(self, wait_ms: int) -> FetchRun:
        held = tuple(self._manager.held)
        return FetchRun(self.identity.agent_id, self.identity.incarnation, wait_ms, held)

    def _start(self, run: FetchedRun) -> None:
        if self._manager.held.get(run.run_id) == run.epoch:
            return  # it was given twice
        if self._hurry.is_set():
            return  # it has not begun, so it goes back to the queue
        task = asyncio.create_task(self._run(run))
        self._runs.add(task)
        self._begun.set()
        task.add_done_callback(self._ended)

    async def _fetch_the_lost(self) -> None:
        """A run may have been given to the request that draining gave up: it is ours, so it is run."""
        try:
            run: FetchedRun | None = await self._client.call(self._request(wait_ms=0))
        except _ERRORS as error:
            _log.warning("the last request was not answered: %s", error)
            return
        if run is not None:
            self._start(run)

    async def _run(self, run: FetchedRun) -> None:
        await self._manager.run(run)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._runs.discard(task)
        self._free.set()
        if not task.cancelled() and task.exception() is not None:
            _log.error("a run could not be run", exc_info=task.exception())

    async def _beat(self) -> None:
        """Say every few seconds that this agent lives, and do what the answer commands."""
        known: set[str] = set()
        while True:
            self._begun.clear()
            try:
                commands: Commands | None = await _unless(self._client.call(self._heartbeat()), self._begun)
            except _ERRORS as error:
                _log.warning("no answer to the heartbeat: %s", error)
                self._doubt.set()
                await asyncio.sleep(self._pause)
                continue
            except Exception:  # without heartbeats every run in hand would count as crashed
                _log.exception("no heartbeat could be sent")
                await asyncio.sleep(self._pause)
                continue
            asked = self._obey(commands or Commands())
            # Neither a command that is being carried out nor a row of short runs may make it beat without a pause.
            if self._begun.is_set() or (asked and asked <= known):
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

    def _obey(self, commands: Commands) -> set[str]:
        for run_id in commands.cancel:
            self._manager.stop(run_id, Status.CANCELLED, "cancelled")
        for run_id in commands.lost:
            self._manager.stop(run_id, Status.CANCELLED, "this run is no longer this agent's")
        return {*commands.cancel, *commands.lost}

    async def _adopt(self) -> None:
        """Deliver what agents on the same folder left behind."""
        left: list[StreamName] = []
        while not self._draining.is_set():
            try:
                left += await asyncio.to_thread(self._folder.adopt)
                while left:
                    await self._deliver(left[0])
                    del left[0]
            except Exception as error:  # what others left must not end this agent's own work
                known = isinstance(error, (StoreError, OSError))
                _log.error(
                    "what was left in %s cannot be delivered now: %s",
                    self._folder.path,
                    error,
                    exc_info=not known,
                )
            await self._until_drained(asyncio.sleep(_ADOPT_SECONDS))

    async def _deliver(self, name: StreamName) -> None:
        _log.info("delivering what agent %s left in %s", name.agent_id, self._folder.path)
        spool = Spool(self._folder, name, adopted=True)
        try:
            # With an end to its patience: one stream that is refused must not hold up the others.
            await Shipper(self._client, spool, self._pause).run_empty(self.settings.retry_attempts)
        finally:
            await spool.close()

    async def _deliver_rest(self, lost: bool) -> bool:
        """What is left in the spool: with patience, or with one last attempt when there is no time for more."""
        shipper = Shipper(self._client, self._shipper.spool, self._pause)
        if not lost and not self._hurry.is_set():
            await _unless(shipper.run_empty(self.settings.retry_attempts), self._hurry)
        return await shipper.run_empty(attempts=1)

    async def _until_drained(self, work: Coroutine[Any, Any, Any]) -> Any:
        return await _unless(work, self._draining)

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.drain)


async def _unless(work: Coroutine[Any, Any, Any], *events: asyncio.Event) -> Any:
    """What the work gives; None when one of the events comes first, and then the work is given up."""
    working = asyncio.ensure_future(work)
    coming = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait([working, *coming], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for future in (working, *coming):
            future.cancel()
