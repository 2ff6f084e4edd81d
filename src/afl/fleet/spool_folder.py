"""The folder of unacknowledged records: one SQLite file with a stream per agent process.

A live agent holds a lock on a small file, so the next agent on the folder knows which streams were left: a lock that
can be taken has no holder. Locks do not outlive a reboot or a killed process.
"""

from __future__ import annotations

import fcntl
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from afl.fleet.settings import SPOOL_FILE
from afl.kernel.database import Database, Schema, Transaction, connect, queries
from afl.kernel.errors import StoreUnavailable
from afl.kernel.filesystem import network_type
from afl.kernel.private_files import make_private_folder, open_private

SCHEMA = Schema("afl.fleet", "sql/spool", component="fleet_spool")
Q = queries("afl.fleet", "sql/spool")
_MAX_RECORDS = 1000

_held: set[str] = set()  # a process can take its own lock again, so it must know what it holds
_held_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class StreamName:
    """The agent process that wrote the records."""

    agent_id: str
    incarnation: str


class SpoolFolder:
    """The file and the locks; several agents may share a folder."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        network = network_type(str(self.path.parent))
        if network is not None:
            raise StoreUnavailable(f"{self.path} is on a network file system ({network}); use a local disk")
        try:
            make_private_folder(self.path)
        except OSError as error:
            raise StoreUnavailable(f"cannot make the folder {self.path}: {error.strerror}") from error
        self.database: Database = connect(f"sqlite:///{self.path / SPOOL_FILE}")
        self.database.ensure(SCHEMA)
        self._locks: dict[str, int] = {}

    def open(self, name: StreamName) -> None:
        """A new stream of this process."""
        if not self._lock(name.incarnation):
            raise StoreUnavailable(f"the stream {name.incarnation} in {self.path} is in use")
        self.database.atomic(Q.open_stream, incarnation=name.incarnation, agent_id=name.agent_id)

    def adopt(self) -> list[StreamName]:
        """Take over the streams of dead agents, to deliver them."""
        rows = self.database.select(Q.streams)
        names = [StreamName(row["agent_id"], row["incarnation"]) for row in rows]
        taken = [name for name in names if self._lock(name.incarnation)]
        # Its agent may have delivered the rest and deleted it before the lock was taken.
        still = {row["incarnation"] for row in self.database.select(Q.streams)}
        for name in taken:
            if name.incarnation not in still:
                self._unlock(name.incarnation)
        return [name for name in taken if name.incarnation in still]

    def remove(self, name: StreamName) -> None:
        """Delete a delivered stream; one with records left stays for the next agent."""
        self.database.atomic(Q.close_stream, incarnation=name.incarnation)
        self._unlock(name.incarnation)

    def close(self) -> None:
        for incarnation in tuple(self._locks):
            self._unlock(incarnation)
        self.database.close()

    def _lock(self, incarnation: str) -> bool:
        path = str(self.path / f"{incarnation}.live")
        with _held_guard:
            if path in _held:
                return False
            descriptor = open_private(path, os.O_RDWR)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                os.close(descriptor)
                return False
            _held.add(path)
            self._locks[incarnation] = descriptor
            return True

    def _unlock(self, incarnation: str) -> None:
        path = str(self.path / f"{incarnation}.live")
        with _held_guard:
            if not self._remains(incarnation):
                Path(path).unlink(missing_ok=True)  # while it is locked, no other process uses it
            os.close(self._locks.pop(incarnation))
            _held.discard(path)

    def _remains(self, incarnation: str) -> bool:
        rows = self.database.select(Q.streams)
        return any(row["incarnation"] == incarnation for row in rows)


def next_records(tx: Transaction, name: StreamName, after: int, most_bytes: int) -> list[tuple[int, bytes]]:
    """The records after a number, oldest first: at least one, and no more than `most_bytes` otherwise."""
    size, last = 0, after
    for row in tx.all(Q.next_sizes, incarnation=name.incarnation, after=after, limit=_MAX_RECORDS):
        size += row["size"]
        if size > most_bytes and last > after:
            break
        last = row["seq"]
    rows = tx.all(Q.next_records, incarnation=name.incarnation, after=after, last=last)
    return [(row["seq"], row["record"]) for row in rows]
