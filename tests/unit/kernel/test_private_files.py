"""New files and folders are their owner's alone, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.kernel.database import connect
from afl.kernel.private_files import make_private_file, make_private_folder, open_private
from afl.runtime.sqlite_store import SqliteStore


@pytest.fixture(params=[0o000, 0o022, 0o777])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder: Path) -> dict[str, int]:
    """Of everything below a folder."""
    return {str(path.relative_to(folder)): mode(path) for path in sorted(folder.rglob("*"))}


@pytest.mark.usefixtures("umask")
def test_a_folder_and_those_above_it(tmp_path: Path) -> None:
    make_private_folder(tmp_path / "a" / "b")
    make_private_folder(tmp_path / "a" / "b")
    assert modes(tmp_path) == {"a": 0o700, "a/b": 0o700}


@pytest.mark.usefixtures("umask")
def test_files(tmp_path: Path) -> None:
    make_private_file(tmp_path / "made")
    os.close(open_private(tmp_path / "opened", os.O_WRONLY))
    os.close(open_private(tmp_path / "opened", os.O_WRONLY))
    assert modes(tmp_path) == {"made": 0o600, "opened": 0o600}


def test_what_is_there_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(0o644)
    tmp_path.chmod(0o755)
    make_private_folder(tmp_path)
    make_private_file(tmp_path / "file")
    os.close(open_private(tmp_path / "file", os.O_WRONLY))
    assert (mode(tmp_path), mode(tmp_path / "file")) == (0o755, 0o644)


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "file")


@pytest.mark.usefixtures("umask")
def test_a_store_and_everything_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore()
    assert store.owner_id
    found = modes(tmp_path)
    store.close()
    assert {".afl/afl.db", ".afl/afl.db-wal", ".afl/afl.db-shm", ".afl/afl.db.writer"} < found.keys()
    folders = {".afl", ".afl/afl.db.live"}
    assert found == {name: 0o700 if name in folders else 0o600 for name in found}


def test_what_lies_beside_a_shared_file_is_shared_too(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch()
    path.chmod(0o660)
    with connect(f"sqlite:///{path}") as database:
        assert database.presence.id
        found = modes(tmp_path)
    assert found.pop("shared.db.live") == 0o770
    assert set(found.values()) == {0o660}
