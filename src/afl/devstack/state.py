"""What a stack knows about itself, in one JSON file of its folder that is only ever replaced whole."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

import msgspec

from afl.devstack.process import ProcessMark
from afl.kernel.codec import decode_as, encode
from afl.kernel.errors import InputError, StoreCorrupt
from afl.kernel.private_files import make_private_folder, open_private


@dataclass
class Entry:
    """One server: its process, the port asked for, and its URL once it was ready."""

    mark: ProcessMark
    port: int
    since_ms: int
    url: str | None = None


@dataclass
class State:
    """Servers that were started and not stopped since; `ports` remembers all, so that URLs stay the same."""

    servers: dict[str, Entry] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)
    watchdog: ProcessMark | None = None


class StateFile:
    """Reading takes no lock; whoever changes anything holds `locked()` from its first look to its end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "stack.json"
        self.log = folder / "watchdog.log"
        self._lock = folder / "lock"

    def read(self) -> State:
        try:
            return decode_as(self.path.read_bytes(), State)
        except FileNotFoundError:
            return State()
        except msgspec.DecodeError as error:
            raise StoreCorrupt(
                f"{self.path} is not the state of a stack ({error}); end its servers by hand and delete the file"
            ) from error

    def write(self, state: State) -> None:
        fresh = self.path.with_suffix(".new")
        with os.fdopen(open_private(fresh, os.O_WRONLY | os.O_TRUNC), "w") as file:
            file.write(encode(state, what="the state of the stack"))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.path)

    def remove(self) -> None:
        """Delete the folder, unless it holds something that is not the stack's."""
        for path in (self.path, self.log, self._lock):
            path.unlink(missing_ok=True)
        if not any(self.folder.iterdir()):
            self.folder.rmdir()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process or thread changes this stack."""
        with self._take_lock():
            yield

    def _take_lock(self) -> TextIO:
        while True:
            file = self._open_lock()
            # flock belongs to this open file: two threads of one process exclude each other as well.
            fcntl.flock(file, fcntl.LOCK_EX)
            if self._is_current(file):
                os.set_inheritable(file.fileno(), True)  # for process.run
                return file
            file.close()  # whoever held it before deleted it with the folder: it guards nothing

    def _open_lock(self) -> TextIO:
        try:
            while True:
                make_private_folder(self.folder)
                if file := self._open_unless_deleted():
                    return file
        except OSError as error:
            raise InputError(f"{self.folder} cannot hold the data of servers: {error.strerror}") from error

    def _open_unless_deleted(self) -> TextIO | None:
        try:
            return os.fdopen(open_private(self._lock, os.O_WRONLY | os.O_APPEND), "a")
        except FileNotFoundError:
            return None  # the folder was there a moment ago: somebody removes the stack

    def _is_current(self, file: TextIO) -> bool:
        try:
            return os.path.samestat(self._lock.stat(), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False
