"""docs/agents.md, worked through as a reader does; without a key, against servers that speak as the real ones do."""

from __future__ import annotations

import re
import shlex
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from support.eventually import eventually
from support.guide_models import guide_models
from support.shell import Shell
from support.walkthrough import answers, fits, free_port, steps, type_in
from support.warm_processes import WarmProcesses

PAGE = Path(__file__).parents[2] / "docs" / "agents.md"
_PORT = "8000"
_NO_MODELS_WORDS = ("afl turns why", "afl turns sessions", "afl approvals")


def same_calls(printed: str, expected: str) -> bool:
    """What a real model says is its own business; that it says something, calls these tools and succeeds is not."""
    called = re.findall(r"^  → (\w+)", expected, re.MULTILINE)
    if expected.startswith("turn ") and not fits(printed.partition("\n")[0], expected.partition("\n")[0]):
        return False
    return bool(printed) >= bool(expected) and all(f"→ {name}" in printed for name in called)


def serving(shell: Shell, workers: int) -> bool:
    """Whether so many workers have said that they are there."""
    return shell.told(1_000_000).count("afl-turns serves") == workers


def put_programs(warm: WarmProcesses, folder: Path) -> None:
    warm.put_program(folder)
    warm.put_program(folder, "python", [])
    warm.put_program(folder, "uvicorn", ["-m", "uvicorn"])


def test_every_command_of_the_guide(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses
) -> None:
    programs = tmp_path_factory.mktemp("programs")
    put_programs(warm, programs)
    port = free_port()
    with guide_models() as (variables, scripted), Shell(tmp_path, programs) as shell:
        for name, value in variables.items():
            shell.run(f"export {name}={shlex.quote(value)}")
        workers = 0
        for command, expected, where in steps(PAGE, tmp_path):
            here = command.replace(_PORT, str(port))
            exactly = scripted or here.startswith(_NO_MODELS_WORDS)
            type_in(shell, here, expected, where, fits if exactly else same_calls)
            workers += here.startswith("afl turns worker")
            eventually(partial(serving, shell, workers), shell.told)
            if here.startswith("uvicorn"):
                eventually(lambda: answers(port), shell.told)
    with closing(sqlite3.connect(tmp_path / "payments.db")) as payments:
        assert payments.execute("select number, euros from payments").fetchall() == [("7", 10.0)]
