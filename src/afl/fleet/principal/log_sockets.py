"""Log lines between sockets and the store: those of old agents are received, all are published to subscribers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from afl.fleet.errors import ProtocolError
from afl.fleet.principal.context import PrincipalContext
from afl.fleet.principal.logs import Block, append, blocks_of_frames
from afl.fleet.protocol import SOH, LogFrame, parse_log_frame
from afl.fleet.zeromq import zmq
from afl.kernel.backoff import Backoff
from afl.kernel.errors import StoreError, StoreUnavailable
from afl.kernel.isolation import Isolation

_log = logging.getLogger(__name__)
_BATCH = 5000
_PAUSES = Backoff(0.2, cap=5.0)


class LogReceiver:
    """Receives log lines of old agents. Nothing is read while a batch is stored, so that the senders block instead."""

    def __init__(self, socket: zmq.asyncio.Socket, context: PrincipalContext) -> None:
        self._socket = socket
        self._context = context
        self._isolation = Isolation(_log, "the log receiver")

    async def serve(self) -> None:
        """Run until canceled."""
        while True:
            frames = _parsed(await self._read())
            blocks = blocks_of_frames(frames)
            if blocks:
                await self._context.publish(await self._store(blocks))

    async def _read(self) -> list[bytes]:
        """The frames that have arrived; waits for the first."""
        raw = [await self._socket.recv()]
        while len(raw) < _BATCH:
            try:
                raw.append(await self._socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                break
        return raw

    async def _store(self, blocks: list[Block]) -> list[Block]:
        """The blocks that were stored. An unavailable store is waited for: the sender will not send again.

        Lines that the store refuses would be refused forever, and must not delay the others.
        """
        stored: list[Block] = []

        async def store(some: Sequence[Block]) -> None:
            await self._context.change(lambda change: append(change, some))
            stored.extend(some)

        pauses = _PAUSES.delays()
        while True:
            left = [block for block in blocks if block not in stored] if stored else blocks
            try:
                await self._isolation.batch(left, store, _whose)
                return stored
            except StoreUnavailable as error:
                _log.error("log lines wait for the store: %s", error)
                await asyncio.sleep(next(pauses))
            except StoreError as error:
                _log.error("%d blocks of log lines were dropped: %s", len(left), error)
                return stored


def _whose(block: Block) -> str:
    return f"a line of task {block.task_instance_id} of {block.workflow_id}"


def _parsed(raw: list[bytes]) -> list[LogFrame]:
    found = []
    for frame in raw:
        try:
            found.append(parse_log_frame(frame))
        except ProtocolError as error:
            _log.warning("a log line was dropped: %s", error)
    return found


class LogPublisher:
    """Publishes lines to subscribers; without subscribers a line costs nothing.

    A topic is a prefix of the frame, so `etl` matches `etl.daily` too, and `etl` followed by 0x01 does not.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._topics: set[bytes] = set()

    async def publish(self, blocks: Iterable[Block]) -> None:
        """A subscriber that is too slow misses lines, which the store has."""
        self._receive()
        if not self._topics:
            return
        for block in blocks:
            head = SOH.join(block.names).encode("utf-8", "replace")
            if any(head.startswith(topic) or topic.startswith(head) for topic in self._topics):
                for frame in block.frames():
                    self._socket.send(frame.frame(), zmq.NOBLOCK)
                await asyncio.sleep(0)  # many lines must not delay other requests

    def _receive(self) -> None:
        """Read the changes of subscriptions."""
        while self._socket.poll(0):
            frame = self._socket.recv(zmq.NOBLOCK)
            if frame[:1] == b"\x01":
                self._topics.add(frame[1:])
            elif frame[:1] == b"\x00":
                self._topics.discard(frame[1:])
