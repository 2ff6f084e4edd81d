"""README and docs tell the truth: what they show is compiled, executed, and printed as they say.

A page is worked through in a folder of its own. A block whose first line is a comment with a file name is written to
that file, before anything runs. Then `afl` blocks are compiled, `python` blocks executed, and of `console` blocks each
`$ afl ...` and `$ pytest ...` is run and its standard output compared; `...` in it stands for anything. `$ afl ... &`
is a process of its own, which is told to stop at the end of the page.
"""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from support.command_line import Afl, afl, environment
from support.warm_processes import WarmPopen

from afl.cli.app import COMMANDS
from afl.operations.program.sources import examine, from_text

__all__ = ["afl"]

ROOT = Path(__file__).parents[2]
EXECUTED = (
    "bridges",
    "coming-from-airflow",
    "coming-from-celery",
    "coming-from-langgraph",
    "coming-from-temporal",
    "cookbook",
    "coordination",
    "fan-out",
    "fastapi",
    "fleet",
    "fleet-protocol",
    "handlers",
    "http-api",
    "language",
    "models",
    "observability",
    "operations",
    "people",
    "python",
    "runtime",
    "stores",
    "testing",
    "turn-content",
    "turn-streams",
    "turns",
    "turns-protocol",
)
PAGES = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in EXECUTED)]
LINKING = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").glob("*.md")),
]
_POPEN = subprocess.Popen
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?://|#) (\S*\.(?:afl|py|env|yml))\n")
_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")


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


@pytest.fixture
def background(tmp_path: Path) -> Iterator[Callable[[list[str]], None]]:
    """Starts `afl` processes; at the end they are told to stop, and must do so without complaint."""
    started: list[WarmPopen] = []

    def start(args: list[str]) -> None:
        started.append(WarmPopen(["-m", "afl", *args], cwd=tmp_path, env=environment()))

    yield start
    for process in started:
        process.terminate()
    assert [process.wait(timeout=60) for process in started] == [0] * len(started)


@pytest.fixture(autouse=True)
def free_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fleet's pages name ports that another run of these tests may have: the environment wins over `.env`."""
    names = ("CDKTR_PRINCIPAL_PORT", "CDKTR_LOGS_LISTENING_PORT", "CDKTR_LOGS_PUBLISHING_PORT")
    with ExitStack() as stack:
        for name in names:
            found = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            monkeypatch.setenv(name, str(found.getsockname()[1]))
    monkeypatch.setenv(
        "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "30000"
    )  # a principal that is still starting is waited for


def run_pytest(args: list[str]) -> str:
    """What the tests of a page print; they see our plugin and no others."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    env = environment(PYTEST_DISABLE_PLUGIN_AUTOLOAD="1")
    return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, timeout=300).stdout


def popen(command: list[str], **options: Any) -> subprocess.Popen[Any]:
    """`subprocess.Popen` as the pages use it: our own programs start from a parent that has everything imported."""
    if command[:3] != [sys.executable, "-m", "afl"]:
        return _POPEN(command, **options)
    assert options.pop("text")
    return WarmPopen(command[1:], **options)


def run_commands(example: Example, where: str, afl: Afl, background: Callable[[list[str]], None]) -> None:
    for command, expected in commands(example):
        program, *args = shlex.split(command)
        if program == "pytest":
            assert_printed(run_pytest(args), expected, where)
            continue
        assert program == "afl", where
        if args[-1] == "&":
            background(args[:-1])
            continue
        done = afl(*args)
        assert done.code == 0, f"{where}: {done.err}"
        assert_printed(done.out, expected, where)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_examples_of_a_page(
    page: Path, afl: Afl, tmp_path: Path, background: Callable[[list[str]], None]
) -> None:
    found = examples(page)
    for example in found:
        if example.file:
            (tmp_path / example.file).parent.mkdir(exist_ok=True)
            (tmp_path / example.file).write_text(example.text)
    ran = 0
    for example in found:
        where = f"{page.name}:{example.line}"
        if example.kind == "afl":
            report = examine(from_text(example.text, where))
            assert report.diagnostics == [], where
        elif example.kind == "python":
            code = compile(example.text, where, "exec", dont_inherit=True)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(subprocess, "Popen", popen)
                patch.setattr(sys, "path", [str(tmp_path), *sys.path])
                exec(code, {"__name__": "example"})
            for file in tmp_path.glob("*.py"):  # another page may have one of that name
                sys.modules.pop(file.stem, None)
        elif example.kind == "console":
            run_commands(example, where, afl, background)
        ran += 1
    assert ran >= 3


@cache
def headings(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are linked to."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in _LINK.findall(page.read_text()):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target), f"{link}#{anchor}"


def test_extras_that_are_named_exist() -> None:
    known = set(importlib.metadata.metadata("agentflow-afl").get_all("Provides-Extra") or ())
    named = {
        (page.name, extra)
        for page in LINKING
        for extras in re.findall(r"pip install ['\"]?(?:\.|agentflow-afl)\[([\w,]+)\]", page.read_text())
        for extra in extras.split(",")
    }
    assert len(named) >= 5 and [each for each in named if each[1] not in known] == []


def test_every_page_is_in_the_index() -> None:
    listed = {link for link, _ in _LINK.findall((ROOT / "docs" / "index.md").read_text())}
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - listed == {"index.md"}


def test_pictures_are_there() -> None:
    shown = {
        (page, name)
        for page in LINKING
        for name in re.findall(r'(?:src|srcset)="(?!http)([^"]+)"|!\[[^]]*\]\(([^)]+)\)', page.read_text())
    }
    assert [
        name for page, names in shown for name in names if name and not (page.parent / name).exists()
    ] == []


def test_the_readme_is_short_and_its_example_too() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    source, agents = [example.text for example in examples(ROOT / "README.md") if example.file]
    assert len([line for line in (source + agents).splitlines() if line.strip()]) <= 15


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    assert [name for name in COMMANDS if f"afl {name}" not in text and name != "compile"] == []
