"""Live log lines for whoever subscribed: a frame per line, sent after the lines are stored."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from afl.fleet.principal.logs import Block
from afl.fleet.protocol import SOH
from afl.fleet.zeromq import zmq


class Publisher:
    """Sends what somebody subscribed to; without subscribers a line costs nothing.

    A topic is the beginning of the frame, so `etl` gets `etl.daily` too, and `etl` followed by 0x01 does not.
    """

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._topics: set[bytes] = set()

    async def publish(self, blocks: Iterable[Block]) -> None:
        """A subscriber that is too slow misses lines, and finds them in the store."""
        self._receive()
        if not self._topics:
            return
        for block in blocks:
            head = SOH.join(block.names).encode("utf-8", "replace")
            if any(head.startswith(topic) or topic.startswith(head) for topic in self._topics):
                for frame in block.frames():
                    self._socket.send(frame.frame(), zmq.NOBLOCK)
                await asyncio.sleep(0)  # many lines must not hold up who asks meanwhile

    def _receive(self) -> None:
        """Who subscribed to what since the last time."""
        while self._socket.poll(0):
            frame = self._socket.recv(zmq.NOBLOCK)
            if frame[:1] == b"\x01":
                self._topics.add(frame[1:])
            elif frame[:1] == b"\x00":
                self._topics.discard(frame[1:])
