"""A command that finds nothing says where it looked: in a subfolder of a project that is another store."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import Afl

from afl.runtime.store import open_store


@pytest.fixture
def subfolder(afl: Afl, doubling: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a folder that has a store with a run."""
    assert afl("submit", doubling, "-i", "n=1").code == 0
    folder = tmp_path / "sub"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def test_the_store_of_a_folder_above_is_offered(afl: Afl, subfolder: Path) -> None:
    done = afl("list")
    assert done.code == 1
    assert f"there is no store {subfolder}/.afl/afl.db yet" in done.err
    assert f"--store {subfolder.parent}/.afl/afl.db" in done.err


@pytest.mark.parametrize("name", ["list", "states", "tasks", "ps", "approvals", "schedules", "flows"])
def test_an_empty_store_is_named(afl: Afl, subfolder: Path, name: str) -> None:
    empty = subfolder / "empty.db"
    open_store(f"sqlite:///{empty}").close()
    done = afl(name, "--store", "empty.db")
    assert (done.code, done.out) == (0, "")
    assert str(empty) in done.err


def test_an_unknown_run_says_which_store_has_none(afl: Afl, subfolder: Path) -> None:
    done = afl("show", "zzz", "--store", "../.afl/afl.db")
    assert done.code == 1
    assert f"looked up in {subfolder.parent}/.afl/afl.db" in done.err
