"""docs/tutorial.md, worked through as a reader does: its files are saved and its commands typed, in their order.

A command that only looks (`afl tasks`, `afl show`) is typed again until it prints what the page says, since what it
looks at happens in other processes. `...` stands for anything.
"""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import NamedTuple

import pytest
from support.eventually import eventually
from support.shell import Shell
from support.warm_processes import WarmProcesses

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?://|#) (\S+\.\w+)\n")
_LOOKS = re.compile(r"afl (tasks|ps|show|why|list|logs|turns show|approvals(?! approve))\b[^&]*$")
_PORT = "8765"


class Block(NamedTuple):
    kind: str
    text: str
    line: int


def blocks() -> list[Block]:
    text = PAGE.read_text()
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in _BLOCK.finditer(text)]


def commands(block: Block) -> list[tuple[str, str]]:
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def fits(printed: str, expected: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0


def type_in(shell: Shell, command: str, expected: str, where: str) -> None:
    printed: list[str] = []

    def once() -> bool:
        code, out = shell.run(command)
        printed[:] = [f"{where}: `{command}` ended with {code} and printed\n{out}\n{shell.told()}"]
        return code == 0 and fits(out, expected)

    if _LOOKS.match(command):
        eventually(once, lambda: printed[0])
    else:
        assert once(), printed[0]


def test_every_command_of_the_tutorial(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, warm: WarmProcesses
) -> None:
    programs = tmp_path_factory.mktemp("programs")
    warm.put_program(programs)
    port = free_port()
    typed = 0
    with Shell(tmp_path, programs) as shell:
        for block in blocks():
            where = f"tutorial.md:{block.line}"
            name = _FILE.match(block.text)
            if name:
                (tmp_path / name[1]).write_text(block.text)
                continue
            if block.kind == "sh":  # installing it, which whoever runs this has done
                assert "pip install" in block.text, where
                continue
            assert block.kind == "console", where
            for command, expected in commands(block):
                here, there = command.replace(_PORT, str(port)), expected.replace(_PORT, str(port))
                type_in(shell, here, there, where)
                typed += 1
                if here.startswith("afl dashboard"):
                    eventually(lambda: answers(port), shell.told)
    assert typed >= 20
