"""What the kernel tells about a file, and where it tells nothing."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.kernel.notify.file_watch import FileWatch, file_identity

SECONDS = 60.0  # far more than anything here takes


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a file"
    path.write_bytes(b"before")
    return path


@pytest.fixture
def watch(file: Path) -> Iterator[FileWatch]:
    watch = FileWatch(str(file))
    yield watch
    watch.close()


def append(file: Path, text: bytes = b"more") -> None:
    with file.open("ab") as stream:
        stream.write(text)


def test_what_was_written_is_told_once(file: Path, watch: FileWatch) -> None:
    assert not watch.wait(0)
    append(file)
    append(file)
    assert watch.wait(SECONDS)
    assert not watch.wait(0)


def test_another_process_is_noticed_while_waiting(file: Path, watch: FileWatch) -> None:
    program = f"open({str(file)!r}, 'ab').write(b'more')"
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        assert watch.wait(SECONDS)
    assert process.returncode == 0


def test_a_truncation_is_a_write(file: Path, watch: FileWatch) -> None:
    os.truncate(file, 0)
    assert watch.wait(SECONDS)


def test_neighbors_in_the_directory_wake_nobody(file: Path, watch: FileWatch) -> None:
    append(file.with_name("another"))
    file.with_name("another").unlink()
    file.read_bytes()
    assert not watch.wait(0)


def test_an_interrupt_ends_this_wait_and_all_later_ones(watch: FileWatch) -> None:
    outcome: list[bool] = []
    waiter = threading.Thread(target=lambda: outcome.append(watch.wait(SECONDS)))
    waiter.start()
    watch.interrupt()
    waiter.join(SECONDS)
    assert outcome == [False]
    assert not watch.wait(3600)


def test_more_events_than_one_read_takes_are_told_once(file: Path, watch: FileWatch) -> None:
    for _ in range(1000):
        append(file)
    assert watch.wait(SECONDS)
    assert not watch.wait(0)


def test_nothing_stays_open(file: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    FileWatch(str(file)).close()
    with pytest.raises(FileNotFoundError):
        FileWatch(str(file.with_name("missing")))
    assert set(os.listdir("/proc/self/fd")) == before


def test_other_systems_have_none(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.kernel.notify.file_watch.LINUX", False)
    with pytest.raises(OSError, match="only Linux") as caught:
        FileWatch(str(file))
    assert caught.value.errno == errno.ENOSYS


def test_a_file_that_takes_the_place_of_another_is_not_the_same(file: Path) -> None:
    known = file_identity(str(file))
    append(file)
    assert file_identity(str(file)) == known is not None
    other = file.with_name("other")
    append(other)
    other.replace(file)
    assert file_identity(str(file)) != known
    file.unlink()
    assert file_identity(str(file)) is None
