"""What short commands do not load: each of these parts takes longer to import than such a command to run."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from support.command_line import environment

from afl.cli import run_command
from afl.operations.run import runs

COMPILER = ("lark", "afl.language.parser", "afl.language.compiler", "afl.language.validator")
EXECUTION = (
    "afl.runtime.evaluator",
    "afl.runtime.local_runner",
    "afl.runtime.runner",
    "afl.runtime.handlers",
)
OTHER_PARTS = (
    "afl.turns",
    "afl.bridges",
    "afl.fleet",
    "afl.coordination",
    "afl.dashboard",
    "afl.mcp",
    "afl.devstack",
)
CLIENTS = (
    *("afl.client.http_client", "http.client", "http.server", "httpx", "starlette", "opentelemetry"),
    *(
        "anthropic",
        "psycopg",
        "pymongo",
        "redis",
        "nats",
        "zmq",
        "afl.models.conversation",
        "afl.models.claude",
    ),
)
RICH_PARTS = ("rich.live", "rich.progress", "rich.markdown", "rich.traceback", "rich.table", "textual")
HELP_MODULES = {
    *("afl", "afl.cli", "afl.cli.app", "afl.cli.collector", "afl.cli.help_text"),
    *("afl.kernel", "afl.kernel.errors", "afl.kernel.joinable_thread", "afl.kernel.leaving"),
    "afl.kernel.near_names",
}
HELP_PACKAGES = {"afl", "annotated_doc", "shellingham", "typer"}
STORES = ("afl.runtime", "afl.operations", "afl.kernel.database", "afl.kernel.settings", "sqlite3", "asyncio")
WORK = (*COMPILER, *EXECUTION, *OTHER_PARTS, *CLIENTS)

_COLLECTOR = """
import gc, sys
from afl.cli import main
state = lambda: (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count())
before = state()
sys.argv = ["afl", "list"]
main({given})
print("\\n", state() == before, gc.isenabled(), gc.get_freeze_count() > 1000)
"""
_LOADED = """
import json, sys
from afl.cli import main
seen = []
for command in sys.argv[1:]:
    code = main(command.split())
    seen.append([code, sorted(sys.modules)])
print("\\n" + json.dumps(seen))
"""


def loaded(where: Path, *commands: str) -> list[set[str]]:
    """The modules that are there after each of some commands, one after another in a process."""
    done = subprocess.run(
        [sys.executable, "-c", _LOADED, *commands],
        cwd=where,
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    seen = json.loads(done.stdout.splitlines()[-1])
    assert [code for code, _ in seen] == [0] * len(commands), done.stderr
    return [set(modules) for _, modules in seen]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run in its store."""
    folder = tmp_path_factory.mktemp("startup")
    source = "workflow Echo(a: String) => (b: String) andThen { yield Echo(b = $.a) }\n"
    (folder / "echo.afl").write_text(source)
    command = [sys.executable, "-m", "afl", "run", "echo.afl", "--input", "a=x", "--quiet"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, env=environment())
    return folder


# Those of a row run in one process, where a command finds what those before it have loaded: the strictest come first.
_ROWS = [
    {
        "--version": (*WORK, *STORES, "typer", "rich", "pydantic"),
        "run --help": (*WORK, *STORES, "rich"),
        "resume --help": (*WORK, *STORES, "rich"),
        "list --help": (*WORK, *RICH_PARTS, "asyncio"),
        "list": (
            *(*WORK, *RICH_PARTS, "afl.operations.work", "afl.kernel.otel", "afl.kernel.metrics"),
            *("asyncio", "importlib.resources", "afl.runtime.program.program"),
        ),
        "why": (*WORK, *RICH_PARTS, "asyncio", "importlib.resources"),
        "tasks": (*WORK, *RICH_PARTS),
        "ps": (*WORK, *RICH_PARTS),
        "turns list": (*COMPILER, *EXECUTION, *OTHER_PARTS[1:], *CLIENTS[:-2]),
        "turns send --help": (*COMPILER, *EXECUTION, *OTHER_PARTS[1:], *CLIENTS[:-2]),
    },
    {"show": (*COMPILER, *OTHER_PARTS, *CLIENTS)},
    {
        "run echo.afl --input a=x": (
            *(*OTHER_PARTS[2:], *RICH_PARTS, "afl.turns", "afl.runtime.runner.service"),
            *CLIENTS[:-2],
        )
    },
]


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: next(iter(row)))
def test_a_short_command_does_not_load_what_it_does_not_use(
    place: Path, row: dict[str, tuple[str, ...]]
) -> None:
    for modules, (command, unwanted) in zip(loaded(place, *row), row.items(), strict=True):
        found = sorted(
            each for each in modules if any(each == part or each.startswith(f"{part}.") for part in unwanted)
        )
        assert not found, command


def test_help_loads_the_table_of_commands_and_typer_alone(place: Path) -> None:
    [after] = loaded(place, "--help")
    modules = {each for each in after if each.partition(".")[0] not in sys.stdlib_module_names}
    ours = {each for each in modules if each.partition(".")[0] == "afl"}
    assert ours == HELP_MODULES
    packages = {each.partition(".")[0] for each in modules if not each.startswith("_")}
    assert packages <= HELP_PACKAGES | {"sitecustomize", "distutils-precedence"}


@pytest.mark.parametrize("package", ["afl.language", "afl.models", "afl.runtime", "afl.runtime.runner"])
def test_a_package_offers_the_names_that_type_checkers_see(package: str) -> None:
    module = import_module(package)
    seen = [
        (node.module, alias.name, (alias.asname or alias.name).removeprefix("_"))
        for block in ast.parse(Path(str(module.__file__)).read_text()).body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    ]
    assert sorted(name for *_, name in seen) == sorted(module.__all__)
    for home, own, name in seen:
        assert getattr(module, name) is vars(import_module(home))[own]
        assert name in dir(module)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nope'"):
        _ = module.nope


def test_the_default_of_the_option_is_that_of_the_runtime() -> None:
    assert run_command._DEFAULT_CONCURRENCY == runs.DEFAULT_CONCURRENCY


@pytest.mark.parametrize(
    ("given", "seen"),
    [
        pytest.param("None", "False True True", id="the process of the command: what it loaded is left out"),
        pytest.param("['list']", "True True False", id="a process of others: the collector is as it was"),
    ],
)
def test_the_collector_is_changed_in_our_own_process_alone(place: Path, given: str, seen: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COLLECTOR.format(given=given)],
        cwd=place,
        capture_output=True,
        text=True,
        check=True,
        env=environment(),
    )
    assert done.stdout.splitlines()[-1].strip() == seen, done.stderr
