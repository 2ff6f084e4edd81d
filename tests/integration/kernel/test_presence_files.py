"""Who lives, told by locks on files: real processes, real deaths."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest
from conversation import SCRIPT, received, tell
from support.processes import python

from afl.kernel import filesystem
from afl.kernel.codec import encode
from afl.kernel.database import Database, connect
from afl.kernel.errors import StoreUnavailable
from afl.kernel.presence import Life
from afl.kernel.presence import files as presence_files
from afl.kernel.presence.files import KEEP_SECONDS, FilePresence


def folder_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///") + ".live")


def age(path: Path) -> None:
    os.utime(path, (path.stat().st_mtime - KEEP_SECONDS - 60,) * 2)


def test_nothing_is_made_before_it_is_asked_for(sqlite_url: str, sqlite: Database) -> None:
    assert not folder_of(sqlite_url).exists()
    mine = sqlite.presence.id
    assert mine == sqlite.presence.id
    assert [path.name for path in folder_of(sqlite_url).iterdir()] == [mine]
    assert sqlite.presence.proof(mine) is Life.ALIVE


def test_a_living_process_is_alive_and_a_killed_one_dead(sqlite_url: str, sqlite: Database) -> None:
    with python(SCRIPT, "present", sqlite_url) as process:
        other = received(process)
        assert sqlite.presence.proof(other) is Life.ALIVE
        assert re.fullmatch(rf"process {process.pid} on \S+", sqlite.presence.describe(other))
        process.kill()
        process.wait()
        assert sqlite.presence.proof(other) is Life.DEAD
        assert str(process.pid) in sqlite.presence.describe(other)
    assert sqlite.presence.proof(sqlite.presence.id) is Life.ALIVE


def test_a_forked_child_does_not_keep_its_parent_alive(sqlite_url: str, sqlite: Database) -> None:
    with python(SCRIPT, "orphan", sqlite_url) as process:
        other = received(process)
        assert sqlite.presence.proof(other) is Life.ALIVE
        process.kill()
        process.wait()
        assert sqlite.presence.proof(other) is Life.DEAD


def test_one_that_left_in_order_is_dead_too(sqlite_url: str, sqlite: Database) -> None:
    with python(SCRIPT, "present", sqlite_url) as process:
        other = received(process)
        tell(process)
        assert received(process) == "left"
        assert sqlite.presence.proof(other) is Life.DEAD


def test_looking_around_does_not_drop_the_own_lock(sqlite_url: str, sqlite: Database) -> None:
    mine = sqlite.presence.id
    sqlite.presence.proof(mine)
    sqlite.presence.describe(mine)
    with connect(sqlite_url) as second:
        assert second.presence.proof(mine) is Life.ALIVE
    program = (
        "import sys; from afl.kernel.database import connect\n"
        "print(connect(sys.argv[1]).presence.proof(sys.argv[2]).value)"
    )
    with python("-c", program, sqlite_url, mine) as process:
        assert process.stdout is not None
        assert process.stdout.read() == "alive\n"


def test_a_new_life_in_the_same_process_has_another_id(sqlite_url: str) -> None:
    with connect(sqlite_url) as database:
        first = database.presence.id
    with connect(sqlite_url) as database:
        assert database.presence.proof(first) is Life.DEAD
        assert database.presence.id != first


@pytest.mark.parametrize("owner", ["", "nobody", "../store.db", "0" * 26, "/etc/passwd"])
def test_an_id_nobody_has_is_unknown(sqlite: Database, owner: str) -> None:
    assert sqlite.presence.proof(owner) is Life.UNKNOWN
    assert sqlite.presence.describe(owner) == owner


def test_another_boot_is_not_judged(
    sqlite_url: str, sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with python(SCRIPT, "present", sqlite_url) as process:
        other = received(process)
        process.kill()
        process.wait()
    monkeypatch.setattr(presence_files, "boot_id", lambda: "another boot")
    assert sqlite.presence.proof(other) is Life.UNKNOWN


@pytest.mark.parametrize("content", [b"", b"{", b'{"boot": 1}'])
def test_a_file_without_its_card_is_not_judged(sqlite_url: str, sqlite: Database, content: bytes) -> None:
    assert sqlite.presence.id
    (folder_of(sqlite_url) / ("z" * 26)).write_bytes(content)
    assert sqlite.presence.proof("z" * 26) is Life.UNKNOWN


def test_old_files_of_the_dead_are_swept_and_no_others(sqlite_url: str) -> None:
    folder = folder_of(sqlite_url)
    folder.mkdir()
    card = encode({"boot": "b", "host": "h", "pid": 1, "since": 0})
    for name in ("a" * 26, "b" * 26, "not-ours.txt"):
        (folder / name).write_text(card)
    age(folder / ("a" * 26))
    age(folder / "not-ours.txt")
    with python(SCRIPT, "present", sqlite_url) as process:
        living = received(process)
        age(folder / living)
        with connect(sqlite_url) as database:
            mine = database.presence.id
            assert {path.name for path in folder.iterdir()} == {"b" * 26, "not-ours.txt", living, mine}
            assert database.presence.proof(living) is Life.ALIVE


def test_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filesystem, "mounted_types", lambda: {"/": "ext4", str(tmp_path): "cifs"})
    with pytest.raises(StoreUnavailable, match="cifs"):
        _ = FilePresence(f"{tmp_path}/x.live").id
    assert list(tmp_path.iterdir()) == []


def test_memory_knows_only_itself() -> None:
    with connect("memory://") as one, connect("memory://") as other:
        assert one.presence.proof(one.presence.id) is Life.ALIVE
        assert one.presence.proof(other.presence.id) is Life.UNKNOWN
        assert "this one" in one.presence.describe(one.presence.id)
        assert one.presence.describe("x") == "x"


def test_a_full_disk_is_named_and_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    presence = FilePresence(f"{tmp_path}/x.live")
    with monkeypatch.context() as patched:
        patched.setattr("os.write", full)
        with pytest.raises(StoreUnavailable, match="the disk is full: free some space"):
            _ = presence.id
    assert list((tmp_path / "x.live").iterdir()) == []
    assert presence.proof(presence.id) is Life.ALIVE
    presence.close()
