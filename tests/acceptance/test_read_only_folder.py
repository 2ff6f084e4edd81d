"""Commands that look work on a store that nobody may write to; those that act say that it is read-only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from afl.operations.program.sources import program_of
from afl.operations.program.submission import submit
from afl.runtime.evaluator import Evaluator
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId

SOURCE = 'event facet Ask(q: String) => (a: String)\nworkflow W() andThen { s = Ask(q = "why?") }'
NOBODY = 65534
# All of it is done once before: whoever has no rights may not be able to read the sources of Python either.
CHILD = """
import io, json, os, sys
from contextlib import redirect_stderr, redirect_stdout
from afl.cli.app import main

def told(command, store):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([*command, "--store", f"sqlite:///{store}"])
    return [code, out.getvalue(), err.getvalue()]

nobody, rehearsal, store = sys.argv[1:]
commands = json.load(sys.stdin)
for command in [*commands, ["list"], ["show", "nope"]]:
    told(command, rehearsal)
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(int(nobody)), os.setuid(int(nobody))
print(json.dumps([told(command, store) for command in commands]))
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that other users can get to: pytest's own are private."""
    made = Path(tempfile.mkdtemp(prefix="afl-read-only-"))
    made.chmod(0o755)
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


def a_waiting_run(folder: Path) -> str:
    store = open_store(f"sqlite:///{folder}/afl.db")
    run = submit(store, program_of(SOURCE)).run
    Evaluator(store).resume(WorkflowId(run))
    store.close()
    return run


def forbid_writing(folder: Path) -> None:
    for each in sorted(folder.rglob("*"), reverse=True):
        each.chmod(0o555 if each.is_dir() else 0o444)
    folder.chmod(0o555)


def looked(folder: Path, *commands: list[str]) -> list[tuple[int, str, str]]:
    """Code, output and messages of each, given by somebody who may only read."""
    with tempfile.TemporaryDirectory() as writable:
        rehearsal = shutil.copy(folder / "afl.db", writable)
        child = subprocess.run(
            [sys.executable, "-c", CHILD, str(NOBODY), rehearsal, str(folder / "afl.db")],
            input=json.dumps(commands),
            capture_output=True,
            text=True,
            check=False,
        )
    assert child.returncode == 0, child.stderr
    return [(code, out, err) for code, out, err in json.loads(child.stdout)]


def result(told: tuple[int, str, str]) -> Any:
    assert told[0] == 0, told[2]
    return json.loads(told[1])


def test_commands_that_look_work_where_nothing_can_be_written(folder: Path) -> None:
    run = a_waiting_run(folder)
    forbid_writing(folder)
    before = sorted(os.listdir(folder))
    names = (
        ["list"],
        ["show", run],
        ["logs", run],
        ["why", run],
        ["tasks"],
        ["ps"],
        ["flows"],
        ["schedules"],
    )
    told = looked(folder, *([*name, "--json"] for name in names), ["approvals", "--json"])
    assert [each["run"] for each in result(told[0])["runs"]] == [run]
    assert [code for code, _, _ in told] == [0] * len(told), told
    assert result(told[4])[0]["name"] == "Ask"
    assert sorted(os.listdir(folder)) == before


def test_commands_that_act_say_that_the_store_is_read_only(folder: Path) -> None:
    run = a_waiting_run(folder)
    (folder / "w.afl").write_text(SOURCE)
    forbid_writing(folder)
    for code, _, err in looked(folder, ["cancel", run], ["submit", f"{folder}/w.afl"]):
        assert code == 1
        assert "is read-only here" in err
        assert "Traceback" not in err


def test_what_is_only_in_the_log_of_a_process_that_died_is_seen(folder: Path) -> None:
    """The write-ahead log of a store that was not closed: SQLite may not fold it here, and reads it all the same."""
    run = a_waiting_run(folder)
    script = f"""
import os
from afl.runtime.store import open_store
from afl.operations.program.submission import submit
from afl.operations.program.sources import program_of
store = open_store("sqlite:///{folder}/afl.db")
print(submit(store, program_of({SOURCE!r})).run, flush=True)
os._exit(0)
"""
    died = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (folder / "afl.db-wal").stat().st_size > 0
    forbid_writing(folder)
    (told,) = looked(folder, ["list", "--json"])
    assert [each["run"] for each in result(told)["runs"]] == [died.stdout.strip(), run]

    folder.chmod(0o755)
    (folder / "afl.db-shm").unlink()  # without this index SQLite cannot read the log, and would leave it out
    folder.chmod(0o555)
    (without,) = looked(folder, ["list", "--json"])
    assert without[0] == 1
    assert "afl.db-wal has not been taken over" in without[2]
