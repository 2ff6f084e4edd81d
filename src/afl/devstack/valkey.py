"""Valkey, which speaks the Redis protocol; every write goes to its append-only file."""

from __future__ import annotations

import socket

from afl.devstack.binaries import VALKEY
from afl.devstack.process import Command
from afl.devstack.server import Server


class Valkey(Server):
    name = "redis"
    program = VALKEY

    def command(self, port: int) -> Command:
        options = {
            "port": str(port),
            "bind": "127.0.0.1",
            "dir": str(self.data),
            "appendonly": "yes",
            "save": "",
        }
        argv = [str(self.program.find())]
        for option, value in options.items():
            argv += [f"--{option}", value]
        return Command(tuple(argv))

    def ready_port(self, pid: int, port: int) -> int | None:
        # INFO is refused while the append-only file is being read, and names the process that answers.
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                link.sendall(b"INFO server\r\nPING\r\nQUIT\r\n")
                answer = b"".join(iter(lambda: link.recv(65536), b""))
        except OSError:
            return None
        return port if b"+PONG" in answer and f"process_id:{pid}\r\n".encode() in answer else None

    def url(self, port: int) -> str:
        return f"redis://127.0.0.1:{port}/0"
