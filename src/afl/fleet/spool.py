"""One stream of the spool: records are numbered at once, committed a moment later, and deleted when acknowledged.

Adding a record never blocks. A thread commits what has gathered: at once after an idle time, and at most every few
milliseconds under load, in the order of the numbers. Only committed records are shipped, so a number that the
principal has seen is never used for another record.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable

import msgspec

from afl.fleet.messages import Record
from afl.fleet.spool_folder import Q, SpoolFolder, StreamName, next_records
from afl.kernel.database import Transaction
from afl.kernel.errors import StoreError
from afl.kernel.joinable_thread import JoinableThread

_log = logging.getLogger(__name__)
_encode = msgspec.json.Encoder().encode
_BATCH_SECONDS = 0.005
_MAX_BUFFERED = 16 * 1024 * 1024  # uncommitted bytes above which the output of tasks is not read
_MAX_RECENT = (
    8 * 1024 * 1024
)  # committed bytes that are kept in memory, to be shipped without reading them again
_LARGE = 64 * 1024
_LAST_ATTEMPTS = 5  # when the agent is about to end


class Spool:
    """The records of one agent process. Only the committing thread runs outside its event loop."""

    def __init__(
        self, folder: SpoolFolder, name: StreamName, *, adopted: bool = False, retry_seconds: float = 1.0
    ) -> None:
        self.name = name
        self._retry_seconds = retry_seconds
        self._folder, self._database = folder, folder.database
        self._loop = asyncio.get_running_loop()
        self._last = self.durable = self.acked = 0
        if adopted:
            self._take_over()
        else:
            folder.open(name)
        self._pending: list[tuple[str, int, bytes]] = []
        self._buffered = 0
        self._forget = 0
        self._recent: deque[tuple[int, bytes]] = deque()
        self._recent_bytes = 0
        self._waiting: list[Callable[[], None]] = []
        self._committed_event = asyncio.Event()
        self._condition = threading.Condition()
        self._closing = self._stopping = False
        self._broken = False  # a record was lost, and with it all later ones, since a stream has no gaps
        self._thread = JoinableThread(self._commit_all, "afl-spool")
        self._thread.start()

    @property
    def next(self) -> int:
        """The number of the record that is added next."""
        return self._last + 1

    @property
    def full(self) -> bool:
        return self._buffered > _MAX_BUFFERED

    @property
    def delivered(self) -> bool:
        """Whether the principal has acknowledged everything."""
        return self.acked == self._last

    def add(self, record: Record) -> None:
        """Take the record, which has the number `next`."""
        data = _encode(record)
        self._last += 1
        assert record.seq == self._last
        with self._condition:
            self._pending.append((self.name.incarnation, record.seq, data))
            self._buffered += len(data)
            self._condition.notify()

    def when_room(self, call: Callable[[], None]) -> None:
        """Call it once the buffer has room again."""
        self._waiting.append(call)
        self._loop.call_soon(self._notify_room)  # it may have been emptied meanwhile

    async def batch(self, after: int, most_bytes: int) -> list[bytes]:
        """Committed records after a number, about `most_bytes` of them; waits until there are some.

        An empty list when there will be none: the remaining records could not be written.
        """
        while self.durable <= after:
            if self._broken:
                return []
            self._committed_event.clear()
            await self._committed_event.wait()
        if self._recent and self._recent[0][0] <= after + 1:
            rows = [row for row in self._recent if row[0] > after]
        else:
            rows = await self._database.run("read", lambda tx: next_records(tx, self.name, after, most_bytes))
        size = 0
        taken: list[bytes] = []
        for _, record in rows:
            size += len(record)
            if taken and size > most_bytes:
                break
            taken.append(record)
        return taken

    def acknowledge(self, seq: int) -> None:
        """The principal has stored everything up to this number."""
        if seq > self.acked:
            self.acked = min(seq, self._last)
            while self._recent and self._recent[0][0] <= self.acked:
                self._recent_bytes -= len(self._recent.popleft()[1])
            with self._condition:
                self._forget = self.acked
                self._condition.notify()

    def stop_now(self) -> None:
        """The agent must end now: stop waiting for a disk that refuses."""
        self._stopping = True

    async def close(self) -> None:
        """Commit everything; a stream that has been delivered is deleted."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        await asyncio.to_thread(self._thread.join)
        try:
            await asyncio.to_thread(self._folder.remove, self.name)
        except StoreError as error:  # the next agent on the folder finds and deletes it
            _log.error("the stream %s stays in the spool: %s", self.name.incarnation, error)

    def _take_over(self) -> None:
        [row] = self._database.select(Q.range, incarnation=self.name.incarnation)
        if row["last"] is not None:
            self._last = self.durable = row["last"]
            self.acked = row["first"] - 1

    def _commit_all(self) -> None:
        """The committing thread."""
        forgotten = self.acked
        while True:
            with self._condition:
                while not self._pending and not self._closing and self._forget <= forgotten:
                    self._condition.wait()
                batch, self._pending = self._pending, []
                forget, closing = self._forget, self._closing
            if not batch and closing and forget <= forgotten:
                return
            self._commit(batch, forget if forget > forgotten else 0)
            forgotten = max(forgotten, forget)
            if not closing and sum(len(data) for _, _, data in batch) < _LARGE:
                time.sleep(_BATCH_SECONDS)

    def _commit(self, batch: list[tuple[str, int, bytes]], forget: int) -> None:
        """Retry until committed: a full disk pauses the output of tasks, and loses nothing while the agent lives."""

        def work(tx: Transaction) -> None:
            if batch:
                tx.many(Q.append, batch)
            if forget:
                tx.run(Q.forget, incarnation=self.name.incarnation, acked=forget)

        attempts_left = _LAST_ATTEMPTS
        while not self._broken:
            try:
                self._database.write(work)
                break
            except StoreError as error:
                _log.error("the spool in %s cannot be written: %s", self._folder.path, error)
                attempts_left -= self._closing or self._stopping
                self._broken = not attempts_left
                if not self._broken:
                    time.sleep(self._retry_seconds)
        if self._broken:
            _log.error("%d records are lost", len(batch))
        if batch:
            self._loop.call_soon_threadsafe(self._committed, batch)

    def _committed(self, batch: list[tuple[str, int, bytes]]) -> None:
        size = sum(len(data) for _, _, data in batch)
        if not self._broken:
            self._keep(batch, size)
        with self._condition:
            self._buffered -= size
        self._committed_event.set()
        self._notify_room()

    def _keep(self, batch: list[tuple[str, int, bytes]], size: int) -> None:
        self.durable = batch[-1][1]
        self._recent.extend((seq, data) for _, seq, data in batch)
        self._recent_bytes += size
        while self._recent_bytes > _MAX_RECENT:
            self._recent_bytes -= len(self._recent.popleft()[1])

    def _notify_room(self) -> None:
        if not self.full:
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
