"""`afl doctor` on an SQLite store and in memory: each check finds what it is for, and nothing else."""

from __future__ import annotations

import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from operated_store import CHAIN, program_of

from afl.fleet.settings import load_fleet_settings
from afl.kernel.database import connect
from afl.kernel.settings import Settings, load_settings
from afl.operations.doctor.diagnosis import diagnose
from afl.operations.doctor.sqlite_files import judge_space
from afl.operations.doctor.store_checks import Finding, Level
from afl.operations.program.submission import submit
from afl.runtime.entities import ServerDefinition, ServerState, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store

MIB = 1 << 20


@pytest.fixture
def settings(empty_sqlite_url: str) -> Settings:
    os.chmod(empty_sqlite_url.removeprefix("sqlite:///"), 0o600)
    return load_settings({"store": empty_sqlite_url}, environ={})


def file_of(settings: Settings) -> Path:
    return Path(settings.store.removeprefix("sqlite:///"))


def changed(settings: Settings, change: Any) -> None:
    store = open_store(settings.store)
    change(store)
    store.close()
    for each in file_of(settings).parent.glob("afl.db*"):
        each.chmod(0o700 if each.is_dir() else 0o600)


def wrong(settings: Settings, **options: Any) -> list[Finding]:
    """What somebody has to do something about."""
    found = list(diagnose(settings, **options))
    assert all(each.remedy for each in found if each.is_wrong)
    return [each for each in found if each.is_wrong]


def test_nothing_is_wrong_with_a_store_in_order(settings: Settings) -> None:
    changed(settings, lambda store: submit(store, program_of(CHAIN), {"n": 3}))
    begun: list[str] = []
    found = list(diagnose(settings, begin=begun.append))
    assert [each for each in found if each.level is not Level.OK] == []
    names = {each.check for each in found}
    assert names >= {"disk space", "permissions", "write-ahead log", "integrity", "tables", "orphaned rows"}
    assert names >= {"leases", "clock", "notifications"}
    assert "integrity" in begun
    assert wrong(settings, quick=True) == []


def test_a_store_in_memory_is_checked_too() -> None:
    assert wrong(load_settings({"store": "memory://"}, environ={})) == []


def test_a_store_that_is_not_there(tmp_path: Path) -> None:
    missing = load_settings({"store": f"sqlite:///{tmp_path}/none.db"}, environ={})
    (found,) = diagnose(missing)
    assert (found.check, found.level) == ("store", Level.ERROR)
    assert "afl run" in found.remedy
    assert list(tmp_path.iterdir()) == []


def test_rights_of_others_are_told_and_taken_away(settings: Settings) -> None:
    file = file_of(settings)
    file.chmod(0o644)
    (found,) = wrong(settings)
    assert (found.check, found.level) == ("permissions", Level.WARNING)
    assert f"{file} (0644)" in found.text
    assert "--fix" in found.remedy
    assert wrong(settings, fix=True) == []
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_folder_of_the_default_store_is_private_and_others_are_not_touched(tmp_path: Path) -> None:
    folder = tmp_path / ".afl"
    folder.mkdir(mode=0o755)
    tmp_path.chmod(0o755)
    settings = load_settings({"store": f"sqlite:///{folder}/afl.db"}, environ={})
    changed(settings, lambda store: None)
    (found,) = wrong(settings)
    assert str(folder) in found.text
    assert wrong(settings, fix=True) == []
    assert (folder.stat().st_mode & 0o777, tmp_path.stat().st_mode & 0o777) == (0o700, 0o755)


def test_damaged_pages_are_found_and_the_store_is_left_alone(settings: Settings) -> None:
    changed(settings, lambda store: [submit(store, program_of(CHAIN), {"n": 3}) for _ in range(20)])
    with file_of(settings).open("r+b") as file:
        for page in range(3, 20):
            file.seek(page * 4096)
            file.write(b"\xff" * 64)
    before = file_of(settings).read_bytes()
    (found,) = wrong(settings)
    assert (found.check, found.level) == ("integrity", Level.ERROR)
    assert "backup" in found.remedy
    assert "not opened" in list(diagnose(settings))[-1].text
    assert file_of(settings).read_bytes() == before


def test_files_of_the_fleet_are_checked_from_outside(settings: Settings, tmp_path: Path) -> None:
    fleet = load_fleet_settings({"app_data_directory": str(tmp_path), "db_path": str(tmp_path / "fleet.db")})
    assert fleet.files == []
    for path in (tmp_path / "fleet.db", tmp_path / "agent" / "spool.db"):
        path.parent.mkdir(exist_ok=True)
        connect(f"sqlite:///{path}").close()
    assert [path.name for path in fleet.files] == ["fleet.db", "spool.db"]
    *_, store, spool = diagnose(settings, fleet_files=fleet.files)
    assert [(each.check, each.level) for each in (store, spool)] == [("fleet", Level.OK)] * 2
    with fleet.files[0].open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * 64)
    fleet.files[1].chmod(0o644)
    found = wrong(settings, fleet_files=fleet.files)
    assert [(each.check, each.level) for each in found] == [("fleet", Level.ERROR), ("fleet", Level.WARNING)]
    assert "fleet.db is damaged" in found[0].text and "spool.db" in found[1].text


def test_commits_behind_damaged_bytes_of_the_log_are_told(settings: Settings, tmp_path: Path) -> None:
    """SQLite itself leaves them out without a word."""
    store = open_store(settings.store)
    for _ in range(10):
        submit(store, program_of(CHAIN), {"n": 3})
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for end in ("", "-wal"):  # as a machine leaves them that lost power
        shutil.copy(f"{file_of(settings)}{end}", crashed / f"afl.db{end}")
        (crashed / f"afl.db{end}").chmod(0o600)
    store.close()
    with (crashed / "afl.db-wal").open("r+b") as log:
        log.seek(32 + 24 + 1000)
        log.write(b"\xff\x00\xff")
    (found,) = wrong(load_settings({"store": f"sqlite:///{crashed}/afl.db"}, environ={}))
    assert (found.check, found.level) == ("write-ahead log", Level.ERROR)
    assert "commits from the damage on" in found.text


def test_a_file_of_another_program(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE cats (name)")
    other.close()
    (tmp_path / "other.db").chmod(0o600)
    (found,) = wrong(load_settings({"store": f"sqlite:///{tmp_path}/other.db"}, environ={}))
    assert "another program" in found.text


@pytest.mark.parametrize(("version", "level"), [(2, Level.WARNING), (99, Level.ERROR)])
def test_tables_of_another_version_are_told_and_not_brought_forward(
    settings: Settings, version: int, level: Level
) -> None:
    def look() -> int:
        with sqlite3.connect(file_of(settings)) as raw:
            found: int = raw.execute("select version from afl_schema where component = 'runtime'").fetchone()[
                0
            ]
        raw.close()
        return found

    with sqlite3.connect(file_of(settings)) as raw:
        raw.execute("update afl_schema set version = ? where component = 'runtime'", [version])
    raw.close()
    (found,) = wrong(settings)
    assert (found.check, found.level) == ("tables", level)
    assert f"runtime have version {version}" in found.text
    assert look() == version


def a_task(uuid: str, run: str, **fields: Any) -> TaskDefinition:
    return TaskDefinition(uuid, "t.Double", "", run, "", f"{run}/s" if run else "", **fields)


def test_orphaned_rows_are_told_with_examples(settings: Settings) -> None:
    changed(settings, lambda store: store.save_task(a_task("lonely", "gone")))
    found = wrong(settings)
    assert {each.check for each in found} == {"orphaned rows"}
    assert [each.text for each in found] == [
        "1 open tasks whose run is not in the store: lonely",
        "1 open tasks whose step is not in the store: lonely",
    ]


def test_leases_of_processes_that_are_gone(settings: Settings) -> None:
    def claim(store: PersistenceAPI) -> None:
        store.save_task(a_task("t", ""))
        assert store.claim_task(["t.Double"], "default") is not None

    changed(settings, claim)
    (found,) = wrong(settings)
    assert (found.check, found.level) == ("leases", Level.WARNING)
    assert f"process {os.getpid()} on " in found.text
    assert "Start a worker" in found.remedy


def test_servers_that_do_not_ping(settings: Settings) -> None:
    def register(store: PersistenceAPI) -> None:
        store.save_server(
            ServerDefinition("s", "g", "afl-runner", "host-7", state=ServerState.RUNNING, ping_time=1)
        )

    changed(settings, register)
    (found,) = wrong(settings)
    assert found.text == "1 servers do not ping: afl-runner on host-7"


def test_a_clock_that_differs_from_this_machines(settings: Settings) -> None:
    with sqlite3.connect(file_of(settings)) as raw:
        raw.execute("update afl_clock set shift = shift + 3600000")
    raw.close()
    (found,) = wrong(settings)
    assert (found.check, found.level) == ("clock", Level.WARNING)
    assert "3,600.0 s ahead of this machine's" in found.text


def test_what_is_said_about_room_on_the_disk() -> None:
    def level(free: int, total: int) -> Level:
        return judge_space("/data", free * MIB, total * MIB)[0].level

    assert level(50_000, 100_000) is Level.OK
    assert level(700, 100_000) is Level.WARNING
    assert level(100, 100_000) is Level.ERROR
    assert level(30, 64) is Level.OK  # a small disk with much room
    assert level(3, 64) is Level.ERROR


def test_a_finished_task_is_nobodys(settings: Settings) -> None:
    changed(settings, lambda store: store.save_task(a_task("done", "gone", state=TaskState.COMPLETED)))
    assert wrong(settings) == []


def test_servers_beside_the_store_that_do_not_answer(settings: Settings) -> None:
    places = {"redis": "redis://:secret@127.0.0.1:1/0", "bus": "nats://me:secret@127.0.0.1:1"}
    found = wrong(load_settings({"store": settings.store, **places}, environ={}))
    assert [each.check for each in found] == ["redis", "nats"]
    assert all("does not answer" in each.text and "secret" not in each.text for each in found)
