"""NATS with JetStream. It picks its own port and writes it to a file, so there is no race for one."""

from __future__ import annotations

from urllib.parse import urlsplit

import msgspec

from afl.devstack.binaries import NATS
from afl.devstack.process import Command, ProcessMark
from afl.devstack.server import Server
from afl.kernel.codec import decode_as

_ANY_PORT = -1


class _Ports(msgspec.Struct):
    nats: list[str]


class Nats(Server):
    name = "nats"
    program = NATS

    def prepare(self, previous: ProcessMark | None) -> None:
        super().prepare(previous)
        # The files are named by process id: one that a killed server left must not answer for the next.
        for leftover in self.home.glob("*.ports"):
            leftover.unlink()

    def free_port(self) -> int:
        return _ANY_PORT

    def command(self, port: int) -> Command:
        places = ("-sd", str(self.data), "--ports_file_dir", str(self.home))
        return Command((str(self.program.find()), "-a", "127.0.0.1", "-p", str(port), "-js", *places))

    def ready_port(self, pid: int, port: int) -> int | None:
        file = self.home / f"nats-server_{pid}.ports"
        try:
            ports = decode_as(file.read_bytes(), _Ports)
        except (FileNotFoundError, msgspec.DecodeError):
            return None  # not written yet, or half of it
        return urlsplit(ports.nats[0]).port

    def url(self, port: int) -> str:
        return f"nats://127.0.0.1:{port}"
