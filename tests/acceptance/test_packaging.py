"""What is built can be installed into an empty environment, with and without an extra, and runs a workflow there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
from support.authorities import trusting_the_usual
from support.command_line import environment

from afl import __version__

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"


def uv(*args: str | Path) -> None:
    env = trusting_the_usual()
    done = subprocess.run([UV, *args], capture_output=True, text=True, timeout=120, check=False, env=env)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder, ROOT)
    return folder


def installed(folder: Path, requirement: str) -> Path:
    """The programs of a new environment with nothing but this requirement, at the pinned versions."""
    uv("venv", "--quiet", "--python", sys.executable, folder)
    pins = ("--constraint", ROOT / "constraints.txt")
    uv("pip", "install", "--quiet", *pins, "--python", folder / "bin" / "python", requirement)
    return folder / "bin"


def run(bin_folder: Path, folder: Path, *args: str) -> str:
    done = subprocess.run(
        [bin_folder / "afl", *args],
        cwd=folder,
        env=environment(AFL_STORE=f"sqlite:///{folder}/run.db"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel(dist: Path, tmp_path: Path) -> None:
    (wheel,) = dist.glob("agentflow_afl-*.whl")
    programs = installed(tmp_path / "env", str(wheel))
    hello = ROOT / "examples" / "hello"
    given = ("--agent", str(hello / "agents.py"), "--input", "name=Ada")
    assert run(programs, tmp_path, "--version") == f"afl {__version__}\n"
    assert json.loads(run(programs, tmp_path, "run", str(hello / "hello.afl"), *given)) == {
        "message": "Hello, Ada!"
    }


def test_the_wheel_has_the_pytest_plugin(dist: Path) -> None:
    (wheel,) = dist.glob("agentflow_afl-*.whl")
    with ZipFile(wheel) as files:
        names = set(files.namelist())
    assert {"afl/testing/plugin.py", "afl/testing/sql/shared.sql", "afl/testing/sql/postgres.sql"} <= set(
        names
    )


def test_the_sdist_with_an_extra(dist: Path, tmp_path: Path) -> None:
    (sdist,) = dist.glob("agentflow_afl-*.tar.gz")
    programs = installed(tmp_path / "env", f"agentflow-afl[fleet] @ {sdist.as_uri()}")
    files = tmp_path / "workflows"
    files.mkdir()
    (files / "a.yml").write_text("name: A\ntasks: {a: {name: A, config: !Subprocess {cmd: 'true'}}}\n")
    assert json.loads(run(programs, tmp_path, "fleet", "check", str(files), "--json"))["problems"] == []
