"""Something between client and server that can disturb them: a cut line, or a pooler that poses as the server."""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
from collections.abc import Callable
from functools import partial
from types import TracebackType
from urllib.parse import urlsplit, urlunsplit

_SO_ATTACH_FILTER = 26  # of Linux
_BPF_RETURN = 0x06


class Proxy:
    """Forwards a PostgreSQL server. `cut_at` closes a line when the client sends these bytes, once it
    has sent those of `cut_after`.

    `deliver` says whether the server still gets them. With `pooler` the server's greeting carries a process number
    that is not the backend's, as pgbouncer's does.
    """

    def __init__(self, server_url: str, *, pooler: bool = False) -> None:
        parts = urlsplit(server_url)
        assert parts.hostname is not None and parts.port is not None
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        netloc = f"{parts.netloc.rpartition('@')[0]}@127.0.0.1:{port}"
        self.url = urlunsplit(parts._replace(netloc=netloc, query="sslmode=disable&gssencmode=disable"))
        self.cut_at: bytes | None = None
        self.cut_after = b""
        self.deliver = True
        self.lines = 0
        self.sent: list[bytes] = []  # by clients, in the pieces that arrived
        self._pooler = pooler
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        self._clients: list[socket.socket] = []

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join()

    def cut(self) -> None:
        """Close every line there is."""
        for end in self._sockets:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:  # closed already
                continue
        self._sockets.clear()

    def vanish(self) -> None:
        """Be a machine without power: what clients send on the lines there are is dropped, never acknowledged."""
        drop_all = ctypes.create_string_buffer(struct.pack("HBBI", _BPF_RETURN, 0, 0, 0))
        program = struct.pack("HP", 1, ctypes.addressof(drop_all))
        for client in [each for each in self._clients if each.fileno() >= 0]:
            client.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        self._clients.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # the test is over
                return
            server = socket.create_connection(self._server)
            self.lines += 1
            self._sockets += [client, server]
            self._clients.append(client)
            self._start(partial(self._pump, client, server, self._watch))
            self._start(partial(self._pump, server, client, _Greeting() if self._pooler else _unchanged))

    def _watch(self, data: bytes) -> tuple[bytes, bool]:
        self.sent.append(data)
        if self.cut_after in data:
            self.cut_after = b""
        if self.cut_after:
            return data, True
        if self.cut_at is None or self.cut_at not in data:
            return data, True
        self.cut_at = None
        return data if self.deliver else b"", False

    def _pump(
        self, source: socket.socket, target: socket.socket, change: Callable[[bytes], tuple[bytes, bool]]
    ) -> None:
        go_on = True
        try:
            while go_on and (data := source.recv(65536)):
                data, go_on = change(data)
                if not go_on:
                    source.shutdown(socket.SHUT_RDWR)  # first, so that no answer gets through
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:  # the other side closed first
            pass
        finally:
            source.close()

    def _start(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()


def _unchanged(data: bytes) -> tuple[bytes, bool]:
    return data, True


class _Greeting:
    """Changes the process number in the server's BackendKeyData message, once."""

    def __init__(self) -> None:
        self._done = False

    def __call__(self, data: bytes) -> tuple[bytes, bool]:
        position = 0
        while not self._done and position + 9 <= len(data):
            length = int.from_bytes(data[position + 1 : position + 5], "big")
            if data[position : position + 1] == b"K":
                data = data[: position + 5] + (4_000_001).to_bytes(4, "big") + data[position + 9 :]
                self._done = True
            position += 1 + length
        return data, True
