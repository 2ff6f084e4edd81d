"""Valkey, NATS and MongoDB as local servers."""

from __future__ import annotations

import socket
import struct
from urllib.parse import urlsplit

import msgspec

from afl.devstack.binaries import MONGOD, NATS, VALKEY
from afl.devstack.process import Command, ProcessMark
from afl.devstack.server import Server
from afl.kernel.codec import decode_as


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


_OP_MSG = 2013
_HEADER = struct.Struct("<iiii")
_REPLICA_SET = "rs0"

Document = dict[str, "str | int | Document | list[Document]"]


class Mongo(Server):
    name = "mongo"
    program = MONGOD

    def command(self, port: int) -> Command:
        network = ("--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket")
        small = ("--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64")
        log = "--wiredTigerEngineConfigString=log=(prealloc=false,file_max=1MB)"
        # By default a member of a replica set lingers 15 s on a signal, for clients to find another one.
        prompt = ("--setParameter", "shutdownTimeoutMillisForSignaledShutdown=0")
        place = ("--dbpath", str(self.data), "--replSet", _REPLICA_SET)
        return Command((str(self.program.find()), *place, *network, *small, log, *prompt))

    def ready_port(self, pid: int, port: int) -> int | None:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                if str(self.data).encode() not in _ask(link, {"getCmdLineOpts": 1}):
                    return None  # another server took the port: leave it alone
                hello = _ask(link, {"hello": 1})
                if b"\x02setName\x00" not in hello:
                    _form_replica_set(link, port)
                return port if b"\x08isWritablePrimary\x00\x01" in hello else None
        except OSError:
            return None

    def url(self, port: int) -> str:
        return f"mongodb://127.0.0.1:{port}/?replicaSet={_REPLICA_SET}"


def _form_replica_set(link: socket.socket, port: int) -> None:
    members: list[Document] = [{"_id": 0, "host": f"127.0.0.1:{port}"}]
    reply = _ask(link, {"replSetInitiate": {"_id": _REPLICA_SET, "members": members}})
    if b"AlreadyInitialized" in reply:
        # Its data is from an earlier run on another port: it does not recognize itself.
        config: Document = {"_id": _REPLICA_SET, "version": 1, "members": members}
        _ask(link, {"replSetReconfig": config, "force": True})


def _ask(link: socket.socket, command: Document) -> bytes:
    """One admin command over the wire; the raw reply. Enough to set up a server without its driver."""
    body = b"\0\0\0\0\0" + _bson({**command, "$db": "admin"})
    link.sendall(_HEADER.pack(_HEADER.size + len(body), 1, 0, _OP_MSG) + body)
    length = _HEADER.unpack(_receive(link, _HEADER.size))[0]
    return _receive(link, length - _HEADER.size)


def _receive(link: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = link.recv(size - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data


def _bson(document: Document) -> bytes:
    elements = b""
    for key, value in document.items():
        name = key.encode() + b"\0"
        if isinstance(value, str):
            text = value.encode() + b"\0"
            elements += b"\x02" + name + struct.pack("<i", len(text)) + text
        elif isinstance(value, bool):
            elements += b"\x08" + name + bytes([value])
        elif isinstance(value, int):
            elements += b"\x10" + name + struct.pack("<i", value)
        elif isinstance(value, list):
            elements += b"\x04" + name + _bson({str(index): item for index, item in enumerate(value)})
        else:
            elements += b"\x03" + name + _bson(value)
    return struct.pack("<i", len(elements) + 5) + elements + b"\0"
