"""The queue of writing processes."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from afl.kernel.file_lock import FileLock


def test_another_error_is_not_hidden_and_leaves_the_gate_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = FileLock(str(tmp_path / "x"))
    real, calls = fcntl.lockf, []

    def lockf(*arguments: Any) -> None:
        calls.append(arguments[1:])
        if arguments[1:] == (fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1):
            raise OSError(errno.ENOLCK, "No locks available")
        real(*arguments)

    monkeypatch.setattr("afl.kernel.file_lock.lockf", lockf)
    with pytest.raises(OSError, match="No locks"):
        lock.acquire()
    assert calls[-1] == (fcntl.LOCK_UN, 1, 0)
    lock.close()


def test_whoever_holds_the_door_does_not_hold_the_gate(tmp_path: Path) -> None:
    lock = FileLock(str(tmp_path / "x"))
    read_end, write_end = os.pipe()
    with lock:
        child = os.posix_spawn(
            "/bin/sh",
            ["sh", "-c", f"grep -c ':{os.stat(lock.path).st_ino} ' /proc/locks"],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, write_end, 1)],
        )
        os.waitpid(child, 0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        assert pipe.read().strip() == "1"
    lock.close()
