"""Checks of an SQLite file from outside: nothing is opened for writing, so that what is damaged stays as it is."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from dataclasses import dataclass

from afl.kernel.database.sqlite_log import integrity_problems, read_log
from afl.kernel.database.sqlite_read_only import is_read_only
from afl.kernel.filesystem import network_type
from afl.operations.doctor.store_checks import Finding, Level, error, fine, note, warning

_BESIDE = ("", "-wal", "-shm", ".writer", ".live")
_OTHERS = 0o077
_MIB = 1 << 20
_LEAST_BYTES = 256 * _MIB
_FEW_BYTES = 1024 * _MIB
_LARGE_LOG = 1024 * _MIB
_OWN_FOLDER = ".afl"
_BACKUP = "Restore the store from a backup; `sqlite3 FILE .recover` saves the readable part. Stop all processes first."


@dataclass(frozen=True)
class Place:
    """The file of a store. `fix`: repair what can be repaired; `quick`: leave out what takes long."""

    path: str
    fix: bool = False
    quick: bool = False

    @property
    def folder(self) -> str:
        return os.path.dirname(self.path)


def file_system(place: Place) -> list[Finding]:
    """The locks of a network file system cannot be trusted."""
    network = network_type(place.folder)
    if network is not None:
        return error(
            "file system",
            f"{place.path} is on a network file system ({network}), where SQLite's locks cannot be trusted",
            "Move the file to a local disk, or use PostgreSQL to share a store between machines.",
        )
    if is_read_only(place.path):
        return note("file system", f"{place.path} is read-only here: commands can look, and nothing can work")
    return fine("file system", f"{place.path} is on a local disk")


def space(place: Place) -> list[Finding]:
    """Room on the disk."""
    usage = shutil.disk_usage(place.folder)
    return judge_space(place.folder, usage.free, usage.total)


def judge_space(folder: str, free: int, total: int) -> list[Finding]:
    """What to say about some free bytes of all."""
    text = f"{free // _MIB:,} MiB of {total // _MIB:,} MiB are free in {folder}"
    remedy = (
        "Free some space, or move the store. `afl prune` removes old runs, so that the file does not grow; "
        "VACUUM makes it smaller: docs/operations.md, Old runs."
    )
    if free < min(_LEAST_BYTES, total // 10):
        return error("disk space", f"{text}: the disk is almost full", remedy)
    if free < min(_FEW_BYTES, total // 5):
        return warning("disk space", text, remedy)
    return fine("disk space", text)


def permissions(place: Place) -> list[Finding]:
    """Inputs and results are nobody else's business."""
    loose = [path for path in _private(place) if stat.S_IMODE(os.lstat(path).st_mode) & _OTHERS]
    if not loose:
        return fine("permissions", "only the owner can read the store")
    names = ", ".join(f"{path} ({stat.S_IMODE(os.lstat(path).st_mode):04o})" for path in loose)
    if not place.fix:
        return warning(
            "permissions",
            f"other users of this machine can access {names}",
            "`afl doctor --fix` removes their permissions.",
        )
    kept = [path for path in loose if not _tightened(path)]
    if kept:
        return error(
            "permissions",
            f"other users of this machine can access {', '.join(kept)}, and that could not be changed",
            "Run `afl doctor --fix` as the owner of the files, where they can be written.",
        )
    return [Finding("permissions", Level.NOTE, f"took the rights of other users away: {names}")]


def _private(place: Place) -> list[str]:
    own = [place.folder] if os.path.basename(place.folder) == _OWN_FOLDER else []
    return own + [path for end in _BESIDE if os.path.exists(path := place.path + end)]


def _tightened(path: str) -> bool:
    mode = stat.S_IMODE(os.lstat(path).st_mode)
    try:
        os.chmod(path, mode & ~_OTHERS)
    except OSError:  # somebody else's, or on a read-only file system
        return False
    return True


def write_ahead_log(place: Place) -> list[Finding]:
    """SQLite says nothing of commits behind damaged bytes of its log."""
    state = read_log(place.path)
    if state.lost_commits:
        return error(
            "write-ahead log",
            f"{place.path}-wal is damaged: SQLite leaves out {state.lost_commits:,} commits from the damage on, and "
            "the next commit overwrites them",
            "Stop all processes, and copy the file and its -wal before anything else. " + _BACKUP,
        )
    size = os.path.getsize(f"{place.path}-wal") if os.path.exists(f"{place.path}-wal") else 0
    if size > _LARGE_LOG:
        return warning(
            "write-ahead log",
            f"{place.path}-wal has {size // _MIB:,} MiB: a long-running reader prevents its checkpoint",
            "Look for a program that keeps the file open, such as a forgotten sqlite3 shell.",
        )
    return fine("write-ahead log", f"{state.frames:,} pages are in the log, all whole")


def integrity(place: Place) -> list[Finding]:
    """SQLite's own check of pages and indexes."""
    found = integrity_problems(place.path, quick=place.quick)
    check = "quick_check" if place.quick else "integrity_check"
    if not found:
        return fine("integrity", f"SQLite {sqlite3.sqlite_version}: {check} found nothing wrong")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return error("integrity", f"{place.path} is damaged: {found[0].splitlines()[0]}{more}", _BACKUP)


CHECKS = (file_system, space, permissions, write_ahead_log, integrity)
