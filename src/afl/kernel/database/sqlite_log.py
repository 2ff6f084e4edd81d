"""SQLite's write-ahead log, read as the file it is: does it hold commits that SQLite would leave out?

A log is a header and frames; each frame has a checksum over all before it, and the last one of a commit is marked.
SQLite takes the frames up to the first whose checksum is wrong, and says nothing of those behind it. That is right for
a commit that was cut off when the machine lost power: no process was told that it is stored. A second commit behind it
shows that the first was stored, and that its bytes were damaged later. The format:
https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sqlite3
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from afl.kernel.database.sqlite_read_only import read_only_address

_HEADER = struct.Struct(">8I")
_DATABASE = struct.Struct(">16xH")  # of its header, the size of a page
_FRAME = struct.Struct(">6I")
_MAGIC = 0x377F0682  # the lowest bit says in which order the words of checksums are read
_MASK = 0xFFFFFFFF
_LOOKS = 4
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class LogState:
    """A log: how many of its frames are whole, and how many commits are lost by the first that is not."""

    frames: int
    lost_commits: int


@dataclass(frozen=True, slots=True)
class _Frame:
    head: bytes
    page: bytes

    @property
    def is_commit(self) -> bool:
        return bool(_FRAME.unpack(self.head)[1])

    @property
    def salt(self) -> tuple[int, int]:
        fields = _FRAME.unpack(self.head)
        return fields[2], fields[3]

    @property
    def checksum(self) -> tuple[int, int]:
        fields = _FRAME.unpack(self.head)
        return fields[4], fields[5]


def read_log(path: str) -> LogState:
    """The log of the database at a path. While a process writes to it, only damage that stays counts."""
    for _ in range(_LOOKS - 1):
        state = _look(path)
        if not state.lost_commits:
            return state
        time.sleep(_PAUSE_SECONDS)
    return _look(path)


def _look(path: str) -> LogState:
    try:
        with open(path, "rb") as database, open(f"{path}-wal", "rb") as log:
            return _read(log, _page_size(database.read(_DATABASE.size)))
    except FileNotFoundError:
        return LogState(0, 0)


def _page_size(head: bytes) -> int:
    size = _DATABASE.unpack(head)[0] if len(head) == _DATABASE.size else 0
    return 65536 if size == 1 else size or 4096


def _read(log: BinaryIO, page_size: int) -> LogState:
    header = log.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return LogState(0, 0)
    magic, _, _, _, *salt_and_sums = _HEADER.unpack(header)
    order = ">" if magic & 1 else "<"
    sums = _added(header[:24], order, (0, 0))
    is_whole = magic | 1 == _MAGIC | 1 and list(sums) == salt_and_sums[2:]
    salt = tuple(salt_and_sums[:2]) if is_whole else None  # without a header, that of the first frame
    frames = lost = 0
    for frame in _frames(log, page_size):
        salt = salt or frame.salt
        if frame.salt != salt:  # of an earlier use of the file, or damaged
            is_whole = False
            continue
        if is_whole:
            sums = _added(frame.page, order, _added(frame.head[:8], order, sums))
            is_whole = sums == frame.checksum
        frames += is_whole
        lost += not is_whole and frame.is_commit
    return LogState(frames, lost if lost > 1 else 0)


def _frames(file: BinaryIO, page_size: int) -> Iterator[_Frame]:
    while True:
        frame = _Frame(file.read(_FRAME.size), file.read(page_size))
        if len(frame.page) < page_size:
            return
        yield frame


def _added(data: bytes, order: str, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = iter(struct.unpack(f"{order}{len(data) // 4}I", data))
    for word in words:
        first = (first + word + second) & _MASK
        second = (second + next(words) + first) & _MASK
    return first, second


_MOST = 20


def integrity_problems(path: str, *, quick: bool = False) -> list[str]:
    """What is wrong with the pages, the indexes and the references of a file; `quick` leaves out the indexes."""
    try:
        connection = sqlite3.connect(read_only_address(path), uri=True)
    except sqlite3.Error as error:
        return [str(error)]
    try:
        check = "quick_check" if quick else "integrity_check"
        told = [row[0] for row in connection.execute(f"PRAGMA {check}({_MOST})")]
        found = [] if told == ["ok"] else told
        broken = connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST)
        return found + [f"a row of {row[0]} refers to one of {row[2]} that is not there" for row in broken]
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        connection.close()
