"""Presence beside an SQLite file: one small file per process, locked while it lives.

`fcntl.lockf` and not `flock`, which a forked child would keep alive. Such a lock is dropped when its process
closes any descriptor of the file, so a process opens its own file once and never looks at it again. Others
ask with F_GETLK, which takes nothing. What the lock says is believed only by a process of the same boot of
the same machine.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import threading
import time
from dataclasses import dataclass

import msgspec

from afl.kernel.boot import boot_id
from afl.kernel.clock import wall_ms
from afl.kernel.codec import decode_as, encode
from afl.kernel.errors import StoreUnavailable
from afl.kernel.file_lock import lock_holder
from afl.kernel.filesystem import network_type
from afl.kernel.ids import sortable_id
from afl.kernel.presence.base import Life, Presence, Process
from afl.kernel.private_files import FILE_MODE, folder_mode, make_private_folder, open_private

KEEP_SECONDS = 24 * 3600
_ID = re.compile(r"[0-9a-z]{26}")
_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space and try again",
    errno.EDQUOT: "your quota is used up: free some space and try again",
}


@dataclass(frozen=True, slots=True)
class Card:
    """What a process writes into its file about itself."""

    boot: str
    host: str
    pid: int
    since: int


class FilePresence(Presence):
    """The locked files of the processes in one folder."""

    def __init__(self, folder: str, mode: int = FILE_MODE) -> None:
        self._folder = folder
        self._mode = mode
        self._guard = threading.Lock()
        self._id: str | None = None
        self._descriptor = -1

    @property
    def id(self) -> str:
        with self._guard:
            if self._id is None:
                self._id = self._appear()
            return self._id

    def proof(self, owner: str) -> Life:
        if owner == self._id:
            return Life.ALIVE
        try:
            descriptor = self._open(owner)
        except OSError:
            return Life.UNKNOWN
        try:
            card = _read_card(descriptor)
            if card is None or card.boot != boot_id():
                return Life.UNKNOWN
            return Life.DEAD if lock_holder(descriptor) is None else Life.ALIVE
        finally:
            os.close(descriptor)

    def process(self, owner: str) -> Process | None:
        if owner == self._id:
            return Process.this()
        try:
            descriptor = self._open(owner)
        except OSError:
            return None
        try:
            card = _read_card(descriptor)
        finally:
            os.close(descriptor)
        return None if card is None else Process(card.host, card.pid)

    def others(self) -> list[str]:
        """The other processes that are alive."""
        if not os.path.isdir(self._folder):
            return []
        named = [name for name in os.listdir(self._folder) if _ID.fullmatch(name) and name != self._id]
        return [name for name in sorted(named) if self.proof(name) is Life.ALIVE]

    def close(self) -> None:
        """The file stays, unlocked, and so proves that this process is gone."""
        with self._guard:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor, self._id = -1, None

    def forked(self) -> None:
        """Locks are not inherited, so closing the child's copy leaves the parent's alone."""
        self._guard = threading.Lock()
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._id = -1, None

    def _appear(self) -> str:
        network = network_type(os.path.dirname(self._folder))
        if network is not None:
            raise StoreUnavailable(
                f"{self._folder} is on a network file system ({network}); use a local disk"
            )
        try:
            make_private_folder(self._folder, folder_mode(self._mode))
            self._sweep()
            name = sortable_id()
            path = os.path.join(self._folder, name)
            descriptor = open_private(path, os.O_RDWR | os.O_EXCL, self._mode)
            try:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                card = Card(boot_id(), os.uname().nodename, os.getpid(), wall_ms())
                os.write(descriptor, encode(card).encode())
            except OSError:
                os.close(descriptor)
                os.unlink(path)
                raise
        except OSError as error:
            remedy = _REMEDIES.get(error.errno or 0, "check the permissions of that directory")
            raise StoreUnavailable(f"cannot write in {self._folder} ({error.strerror}); {remedy}") from error
        self._descriptor = descriptor
        return name

    def _sweep(self) -> None:
        """Remove the files of processes that ended long ago. A recent file stays: it is the proof of death."""
        oldest = time.time() - KEEP_SECONDS
        for entry in os.scandir(self._folder):
            if _ID.fullmatch(entry.name) is None or entry.name == self._id:
                continue
            try:
                if entry.stat().st_mtime < oldest and self.proof(entry.name) is not Life.ALIVE:
                    os.unlink(entry.path)
            except FileNotFoundError:  # another process swept it
                continue

    def _open(self, owner: str) -> int:
        if _ID.fullmatch(owner) is None:  # no id of ours, perhaps a path that leads elsewhere
            raise FileNotFoundError(owner)
        return os.open(os.path.join(self._folder, owner), os.O_RDONLY | os.O_CLOEXEC)


def _read_card(descriptor: int) -> Card | None:
    try:
        return decode_as(os.pread(descriptor, 4096, 0), Card)
    except msgspec.DecodeError:  # its owner has created the file and not yet written it
        return None
