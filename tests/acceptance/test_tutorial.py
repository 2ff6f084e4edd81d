"""docs/tutorial.md, worked through as a reader does."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.eventually import eventually
from support.shell import Shell
from support.walkthrough import answers, free_port, steps, type_in
from support.warm_processes import WarmProcesses

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"
_PORT = "8765"


def test_every_command_of_the_tutorial(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses
) -> None:
    programs = tmp_path_factory.mktemp("programs")
    warm.put_program(programs)
    port = free_port()
    typed = 0
    with Shell(tmp_path, programs) as shell:
        for command, expected, where in steps(PAGE, tmp_path):
            here, there = command.replace(_PORT, str(port)), expected.replace(_PORT, str(port))
            type_in(shell, here, there, where)
            typed += 1
            if here.startswith("afl dashboard"):
                eventually(lambda: answers(port), shell.told)
    assert typed >= 20
