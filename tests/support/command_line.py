"""The command line for tests: called in this process, or as a process of its own."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from afl.cli import main


@dataclass(frozen=True)
class Outcome:
    """What a command came to."""

    code: int
    out: str
    err: str


class Afl(Protocol):
    """Runs one command; what it prints is taken from this process."""

    def __call__(self, *args: str, stdin: str = "") -> Outcome: ...


@pytest.fixture
def afl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Afl]:
    """`afl("run", "w.afl")` in an empty folder, with no setting from outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    for name in [name for name in os.environ if name.startswith("AFL_")]:
        monkeypatch.delenv(name)

    def run(*args: str, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = main(list(args))
        printed = capsys.readouterr()
        return Outcome(code, printed.out, printed.err)

    before = set(sys.modules)
    yield run
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def environment(**changes: str) -> dict[str, str]:
    """The environment of a process without AgentFlow's settings, but for the given ones."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("AFL_")}
    return {**clean, "PYTHONWARNINGS": "error", **changes}


def afl_process(*args: str, folder: Path, stdin: str = "", **changes: str) -> Outcome:
    """`python -m afl` as a real process, until it ends."""
    done = subprocess.run(
        [sys.executable, "-m", "afl", *args],
        cwd=folder,
        env=environment(**changes),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Outcome(done.returncode, done.stdout, done.stderr)
