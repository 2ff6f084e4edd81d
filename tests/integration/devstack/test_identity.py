"""PostgreSQL runs for root, for root where namespaces are refused, and for everybody else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from support.processes import as_ordinary_user

from afl.devstack import down, status, up
from afl.devstack.identity import ordinary_identity
from afl.devstack.postgres import Postgres

NOBODY = 65534


def asks_postgres(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def test_an_ordinary_user_needs_no_detour(folder: Path) -> None:
    script = (
        "import os, sys; from pathlib import Path; from afl.devstack import *; "
        "from afl.devstack.identity import ordinary_identity; assert os.geteuid() != 0; "
        "urls = up(sys.argv[1]); assert len(urls) == 3; assert len(down(sys.argv[1])) == 3; "
        "print(ordinary_identity(Path(sys.argv[1]), Path('/program')))"
    )
    answer = subprocess.run(
        [*as_ordinary_user(), sys.executable, "-c", script, str(folder / "servers")],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "prefix=(), user=None" in answer.stdout


if os.geteuid() == 0:  # these ways exist for root only

    def refuse(home: Path, program: Path) -> bool:
        return False

    def elsewhere(folder: Path) -> Path:
        return Path((folder / "postgres" / "elsewhere").read_text())

    def test_root_keeps_its_data_in_a_private_folder(folder: Path) -> None:
        folder.chmod(0o700)
        assert asks_postgres(up(folder, ["postgres"])["postgres"])
        assert ordinary_identity(folder, Postgres.program.find()).folder == folder
        assert (folder / "postgres" / "data" / "PG_VERSION").exists()

    def test_root_without_namespaces_becomes_nobody(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("afl.devstack.identity.namespace_serves", refuse)
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
        monkeypatch.setattr("afl.devstack.identity.namespace_serves", refuse)
        assert asks_postgres(up(folder / "servers", ["postgres"])["postgres"])
        copies = elsewhere(folder / "servers") / "programs"
        assert os.readlink(f"/proc/{status(folder / 'servers')[0].pid}/exe").startswith(str(copies))

    def test_a_namespace_that_cannot_reach_the_folder_does_not_serve(folder: Path) -> None:
        os.chown(folder, 12345, 12345)  # root overrides the mode of others' folders only outside a namespace
        assert asks_postgres(up(folder / "servers", ["postgres"])["postgres"])
        assert elsewhere(folder / "servers").exists()
