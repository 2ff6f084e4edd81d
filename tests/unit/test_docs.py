"""README and docs tell the truth: what they show is compiled, executed, and printed as they say.

A page is worked through in a folder of its own. A block whose first line is a comment with a file name is written to
that file, before anything runs. Then `afl` blocks are compiled, `python` blocks executed, and of `console` blocks each
`$ afl ...` is run and its standard output compared; `...` in it stands for anything.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest
from support.command_line import Afl, afl

from afl.cli.app import COMMANDS
from afl.operations.compilation import examine
from afl.operations.sources import from_text

__all__ = ["afl"]

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in ("runtime", "stores", "operations"))]
LINKING = [*PAGES, ROOT / "docs" / "why.md", ROOT / "CONTRIBUTING.md"]
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?://|#) (\S+\.(?:afl|py))\n")
_LINK = re.compile(r"\]\((?!http)([^)#]+)\)")


class Example(NamedTuple):
    kind: str
    text: str
    line: int

    @property
    def file(self) -> str:
        found = _FILE.match(self.text)
        return found[1] if found else ""


def examples(page: Path) -> list[Example]:
    text = page.read_text()
    return [Example(m[1], m[2], text[: m.start()].count("\n") + 2) for m in _BLOCK.finditer(text)]


def commands(example: Example) -> list[tuple[str, str]]:
    """The commands of a console block, each with the output it is said to have."""
    parts = re.split(r"^\$ ", example.text, flags=re.MULTILINE)[1:]
    return [(command, output) for command, _, output in (part.partition("\n") for part in parts)]


def assert_printed(out: str, expected: str, where: str) -> None:
    pattern = ".*".join(re.escape(part) for part in expected.split("..."))
    assert re.fullmatch(pattern, out, re.DOTALL), f"{where}: printed\n{out}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page(page: Path, afl: Afl, tmp_path: Path) -> None:
    found = examples(page)
    for example in found:
        if example.file:
            (tmp_path / example.file).write_text(example.text)
    ran = 0
    for example in found:
        where = f"{page.name}:{example.line}"
        if example.kind == "afl":
            report = examine(from_text(example.text, where))
            assert report.diagnostics == [], where
        elif example.kind == "python":
            exec(compile(example.text, where, "exec"), {"__name__": "example"})
        elif example.kind == "console":
            for command, expected in commands(example):
                program, *args = shlex.split(command)
                assert program == "afl", where
                done = afl(*args)
                assert done.code == 0, f"{where}: {done.err}"
                assert_printed(done.out, expected, where)
        ran += 1
    assert ran >= 3


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


def test_the_readme_is_short_and_its_example_too() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    source, agents = [example.text for example in examples(ROOT / "README.md") if example.file]
    assert len([line for line in (source + agents).splitlines() if line.strip()]) <= 15


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"afl {name}" not in text and name != "compile"] == []
