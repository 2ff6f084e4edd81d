"""Tests in several processes: each runs once, and no failure is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_CONFTEST = """
from support.parallel import ParallelRun
from support.timing import FixtureTimes

def pytest_configure(config):
    config.pluginmanager.register(ParallelRun(2, FixtureTimes()))
"""
_SUPPORT = Path(__file__).parents[1]


def run(folder: Path, *args: str, **files: str) -> tuple[int, str]:
    """pytest in two processes on files of tests; its exit code and what it printed."""
    for name, text in {"conftest": _CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *args],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(_SUPPORT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_each_test_runs_once_and_the_files_in_different_processes(tmp_path: Path) -> None:
    # Each file waits for the other: in one process they would wait for ever.
    waits = """
import pathlib, pytest, time

def test_meets(tmp_path_factory):
    here = pathlib.Path(__file__)
    (here.parent / (here.stem + ".met")).write_text(str(tmp_path_factory.getbasetemp()))
    while len(list(here.parent.glob("*.met"))) < 2:
        time.sleep(0.01)

@pytest.mark.parametrize("n", range(50))
def test_counts(n):
    with open(__file__ + ".log", "a") as log:
        log.write(f"{n}\\n")
"""
    code, out = run(tmp_path, test_one=waits, test_two=waits)
    assert code == 0, out
    assert "102 passed" in out
    for name in ("test_one", "test_two"):
        assert (tmp_path / f"{name}.py.log").read_text().split() == [str(n) for n in range(50)]
    folders = {file.read_text() for file in tmp_path.glob("*.met")}
    assert len(folders) == 2


def test_no_piece_waits_behind_a_test_that_is_under_way(tmp_path: Path) -> None:
    waits = """
import pathlib, time

def test_meets():
    here = pathlib.Path(__file__)
    here.with_suffix(".met").touch()
    while len(list(here.parent.glob("*.met"))) < 2:
        time.sleep(0.01)
"""
    code, out = run(tmp_path, test_one=waits, test_two=waits)
    assert code == 0, out
    assert "2 passed" in out


def test_a_failure_is_shown_with_its_output(tmp_path: Path) -> None:
    fails = "def test_fails():\n    print('what it', 'printed')\n    assert 1 == 2\n"
    hangs = """
import pytest, threading

@pytest.mark.timeout(1)
def test_hangs():
    threading.Event().wait()
"""
    good = "def test_passes(): pass\n"
    code, out = run(tmp_path, "-p", "pytest_timeout", test_bad=fails, test_hangs=hangs, test_good=good)
    assert code == 1
    assert "2 failed, 1 passed" in out
    assert "assert 1 == 2" in out and "what it printed" in out
    assert "Timeout (>1.0s)" in out and "terminalreporter" not in out


def test_what_a_fixture_raises_at_the_end_of_a_process_is_told(tmp_path: Path) -> None:
    fails = """
import pytest

@pytest.fixture(scope="session")
def server():
    yield
    raise RuntimeError("it does not stop")

def test_with(server): pass
"""
    code, out = run(tmp_path, test_bad=fails)
    assert code == 1
    assert "1 passed, 1 error" in out and "it does not stop" in out


@pytest.mark.parametrize(("how", "code"), [("os._exit(7)", 7), ("os.kill(os.getpid(), 9)", -9)])
def test_a_test_that_ends_its_process_fails(tmp_path: Path, how: str, code: int) -> None:
    dies = f"import os\n\ndef test_dies():\n    {how}\n\ndef test_after(): pass\n"
    ended, out = run(tmp_path, test_dies=dies)
    assert ended == 1
    assert f"The process of this test ended in the middle, with exit code {code}" in out


def test_the_first_failure_may_end_the_run(tmp_path: Path) -> None:
    waits = "import time\n\ndef test_waits():\n    time.sleep(3600)\n"
    code, out = run(tmp_path, "-x", test_bad="def test_fails(): assert False\n", test_waits=waits)
    assert code == 1
    assert "1 failed" in out and "stopping after 1 failures" in out


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    code, out = run(tmp_path, test_bad="import nothing_of_that_name\n", test_good="def test_passes(): pass\n")
    assert code == 2
    assert "No module named 'nothing_of_that_name'" in out
