"""PostgreSQL runs for root, for root where namespaces are refused, and for everybody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from afl.devstack import down, status, up
from afl.devstack.postgres import Identity, Postgres, namespace_serves, ordinary_identity

NOBODY = 65534
NAMELESS = 4242


def asks_postgres(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def test_an_ordinary_user_needs_no_detour(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: NOBODY)
    assert ordinary_identity(folder, Path("/program")) == Identity(folder, Path("/program"))


if namespace_serves(Path("/tmp"), Path("/bin/sh")):  # the way to be somebody else and yet reach this code
    BECOME = "unshare --user --map-user={0} --map-group={0}"
    SCRIPT = """
import os, sys
from afl.devstack import down, up
assert os.geteuid() == int(sys.argv[2])
assert len(up(sys.argv[1])) == 3
print(*down(sys.argv[1]))
"""

    @pytest.mark.parametrize("user", [NOBODY, NAMELESS])
    def test_any_user_can_have_servers(folder: Path, user: int) -> None:
        command = [
            *BECOME.format(user).split(),
            sys.executable,
            "-c",
            SCRIPT,
            str(folder / "servers"),
            str(user),
        ]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        assert answer.stdout.split() == ["postgres", "redis", "nats"]


if os.geteuid() == 0:  # these ways exist for root only

    def refuse(home: Path, program: Path) -> bool:
        return False

    def elsewhere(folder: Path) -> Path:
        return Path((folder / "postgres" / "elsewhere").read_text())

    def test_root_can_use_a_private_folder(folder: Path) -> None:
        folder.chmod(0o700)
        assert asks_postgres(up(folder / "servers", ["postgres"])["postgres"])
        in_folder = (folder / "servers" / "postgres" / "data" / "PG_VERSION").exists()
        assert in_folder == namespace_serves(folder, Postgres.program.find())

    def test_root_without_namespaces_becomes_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("afl.devstack.postgres.namespace_serves", refuse)
        url = up(folder, ["postgres"])["postgres"]
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept ()")
        assert os.stat(f"/proc/{status(folder)[0].pid}").st_uid == NOBODY
        assert down(folder) == ["postgres"]
        with psycopg.connect(up(folder, ["postgres"])["postgres"]) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
        place = elsewhere(folder)
        assert place.stat().st_uid == NOBODY
        down(folder, remove=True)
        assert not place.exists()

    def test_nobody_gets_a_copy_of_programs_it_cannot_reach(
        folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        package = Postgres.program.find().parents[2]
        private = folder / "private environment"
        private.mkdir(mode=0o700)
        shutil.copytree(package / "pginstall", private / package.name / "pginstall")
        libraries = package.with_name(f"{package.name}.libs")
        shutil.copytree(libraries, private / libraries.name)
        program = private / package.name / "pginstall" / "bin" / "postgres"
        monkeypatch.setattr("afl.devstack.binaries.Program.find", lambda self: program)
        monkeypatch.setattr("afl.devstack.postgres.namespace_serves", refuse)
        assert asks_postgres(up(folder / "servers", ["postgres"])["postgres"])
        copies = elsewhere(folder / "servers") / "programs"
        assert os.readlink(f"/proc/{status(folder / 'servers')[0].pid}/exe").startswith(str(copies))

    def test_a_namespace_that_cannot_reach_the_folder_does_not_serve(folder: Path) -> None:
        os.chown(folder, 12345, 12345)  # root overrides the mode of others' folders only outside a namespace
        assert asks_postgres(up(folder / "servers", ["postgres"])["postgres"])
        assert elsewhere(folder / "servers").exists()
