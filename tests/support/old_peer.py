"""A peer of the reference: a fresh REQ socket per request, frames written out by hand, PUSH and SUB for logs."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import zmq

from afl.fleet.settings import FleetSettings

_PATIENCE_MS = 30_000


class OldPeer:
    """Knows bytes and ports, and nothing of ours but the settings."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._context = zmq.Context()
        self._open: list[zmq.Socket[bytes]] = []

    def ask(self, *tokens: str) -> bytes:
        """Send tokens joined by 0x01 and give back the reply's bytes."""
        return self.ask_frames("\x01".join(tokens).encode())

    def ask_frames(self, *frames: bytes) -> bytes:
        with self._context.socket(zmq.REQ) as socket:
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(self._settings.address(self._settings.principal_port))
            socket.send_multipart(frames)
            assert socket.poll(_PATIENCE_MS), f"no answer to {frames!r}"
            return socket.recv()

    def pusher(self) -> zmq.Socket[bytes]:
        """Where log frames go in."""
        return self._connected(zmq.PUSH, self._settings.logs_listening_port)

    def subscriber(self, topic: str) -> zmq.Socket[bytes]:
        """Where log frames come out."""
        socket = self._connected(zmq.SUB, self._settings.logs_publishing_port)
        socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        return socket

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for socket in self._open:
            socket.close(linger=0)
        self._context.term()

    def _connected(self, kind: int, port: int) -> zmq.Socket[bytes]:
        socket: zmq.Socket[bytes] = self._context.socket(kind)
        self._open.append(socket)
        socket.setsockopt(zmq.RCVTIMEO, _PATIENCE_MS)
        socket.connect(self._settings.address(port))
        return socket
