"""Following a run or the log lines of a fleet as they happen, through outages of the principal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from dataclasses import dataclass

from afl.fleet.client import AsyncClient
from afl.fleet.errors import PrincipalAway
from afl.fleet.messages import LogLine, LogPage
from afl.fleet.requests import GetLogs, WatchRun
from afl.fleet.settings import FleetSettings
from afl.kernel.canceling import cancel_and_wait
from afl.operations.fleet.fleet import LogFilter, LogQuery, with_hint
from afl.operations.fleet.fleet_dag import RunStanding, standing

_WAIT_MS = 2_000  # an outage is noticed that much and the timeout later, so it is short


@dataclass(frozen=True, slots=True)
class Away:
    """The principal did not answer; it is asked again."""

    attempts: int


News = RunStanding | list[LogLine] | Away


async def follow_run(settings: FleetSettings, run_id: str, *, last: int = 0) -> AsyncIterator[News]:
    """How a run stands, whenever that changes, and its lines; the last news is the end of the run.

    `last`: of the lines that are there already, only so many.

    An agent ships statuses and lines in one order, so every line is there when the end is.
    """
    async with AsyncClient(settings) as client:
        follower = _Follower(client, run_id, last)
        parts = follower.start()
        end: RunStanding | None = None
        ended = 0
        try:
            while ended < len(parts):
                news = await follower.queue.get()
                if isinstance(news, Exception):
                    raise news
                if news is None:
                    ended += 1
                elif isinstance(news, RunStanding) and news.run.status.is_final:
                    end = news  # told when all its lines are
                else:
                    yield news
            if end is not None:
                yield end
        finally:
            await cancel_and_wait(parts)


async def follow_logs(
    settings: FleetSettings,
    query: LogQuery,
    chosen: LogFilter,
    *,
    last: int = 0,
    after: int = 0,
    away: Callable[[], None] | None = None,
) -> AsyncGenerator[list[LogLine], None]:
    """The lines that fit, from the query's start on, from the last so many, or behind a position, forever.

    `away` is called when the principal does not answer, once until it does.
    """
    async with AsyncClient(settings) as client:
        attempts, wait_ms = 0, 0
        while True:
            try:
                page = await client.call(query.request(after, last=0 if after else last, wait_ms=wait_ms))
            except PrincipalAway as error:
                if away is not None and not attempts:
                    away()
                attempts = await _patience(client, attempts, error)
                continue
            after, attempts, wait_ms = page.position, 0, 0 if page.more else _WAIT_MS
            if lines := [line for line in page.lines if chosen.passes(line)]:
                yield lines


class _Follower:
    """Two long polls side by side, for the run and for its lines; each puts None into the queue at its end."""

    def __init__(self, client: AsyncClient, run_id: str, last: int) -> None:
        self.queue: asyncio.Queue[News | Exception | None] = asyncio.Queue(maxsize=100)
        self._client = client
        self._run_id = run_id
        self._last = last
        self._over = asyncio.Event()

    def start(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._told(part)) for part in (self._watch(), self._read())]

    async def _told(self, part: Coroutine[None, None, None]) -> None:
        try:
            await part
        except Exception as error:  # whoever follows raises it
            await self.queue.put(error)
        await self.queue.put(None)

    async def _watch(self) -> None:
        version, away = None, 0
        while not self._over.is_set():
            wait_ms = 0 if version is None or away else _WAIT_MS
            try:
                detail = await self._client.call(WatchRun(self._run_id, version or 0, wait_ms))
            except PrincipalAway as error:
                await self.queue.put(Away(away + 1))
                away = await _patience(self._client, away, error)
                continue
            if detail.run.version != version or away:
                await self.queue.put(standing(detail))
            version, away = detail.run.version, 0
            if detail.run.status.is_final:
                self._over.set()

    async def _read(self) -> None:
        """Lines, until the run is over and nothing more is there."""
        after, away, over, more = 0, 0, False, True
        while more or not over:
            over = self._over.is_set()
            wait_ms = 0 if over else _WAIT_MS
            last = 0 if after else self._last
            request = GetLogs(run_id=self._run_id, after=after, last=last, wait_ms=wait_ms)
            try:
                page = await self._page(request)
            except PrincipalAway as error:
                away = await _patience(self._client, away, error)
                over = False
                continue
            away, after, more = 0, page.position, page.more
            if page.lines:
                await self.queue.put(page.lines)

    async def _page(self, request: GetLogs) -> LogPage:
        """The lines asked for; an empty page as soon as the run ends, for then nothing need be waited for."""
        asking = asyncio.ensure_future(self._client.call(request))
        ending = asyncio.ensure_future(self._over.wait())
        try:
            await asyncio.wait(
                [asking, ending] if request.wait_ms else [asking], return_when=asyncio.FIRST_COMPLETED
            )
            if asking.done():
                return asking.result()
            return LogPage(lines=[], position=request.after, more=True)
        finally:
            asking.cancel()
            ending.cancel()


async def _patience(client: AsyncClient, away: int, error: PrincipalAway) -> int:
    """Wait before the next attempt; the error itself when there were enough."""
    if away + 1 >= client.settings.retry_attempts:
        raise with_hint(error) from error
    await asyncio.sleep(client.settings.default_zmq_timeout_ms / 1000)
    return away + 1
