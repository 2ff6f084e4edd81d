"""A page of the docs, worked through as a reader does: its files are saved and its commands typed, in their order.

A command that only looks (`afl tasks`, `afl show`) is typed again until it prints what the page says, since what it
looks at happens in other processes. `...` stands for anything.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from support.eventually import eventually
from support.shell import Shell

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?://|#) (\S+\.\w+)\n")
_LOOKS = re.compile(r"afl (tasks|ps|show|why|list|logs|turns (show|why)|approvals(?! approve))\b[^&]*$")


class Block(NamedTuple):
    kind: str
    text: str
    line: int

    @property
    def file(self) -> str:
        """The name of the file that it is."""
        found = _FILE.match(self.text)
        return found[1] if found else ""

    def commands(self) -> list[tuple[str, str]]:
        """The commands of a console block, each with the output it is said to have."""
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]
        return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 2) for m in _BLOCK.finditer(text)]


def steps(page: Path, folder: Path) -> Iterator[tuple[str, str, str]]:
    """The commands of a page with their outputs and where they stand; files are saved when they come by."""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.file:
            (folder / block.file).write_text(block.text)
        elif block.kind == "console":
            yield from ((command, expected, where) for command, expected in block.commands())
        else:  # installing it, which whoever runs this has done
            assert block.kind == "sh" and "pip install" in block.text, where


def fits(printed: str, expected: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def type_in(
    shell: Shell, command: str, expected: str, where: str, fits: Callable[[str, str], bool] = fits
) -> None:
    printed: list[str] = []

    def once() -> bool:
        code, out = shell.run(command)
        printed[:] = [f"{where}: `{command}` ended with {code} and printed\n{out}\n{shell.told()}"]
        return code == 0 and fits(out, expected)

    if _LOOKS.match(command):
        eventually(once, lambda: printed[0])
    else:
        assert once(), printed[0]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as knock:
        return knock.connect_ex(("127.0.0.1", port)) == 0
