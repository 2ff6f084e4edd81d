"""Shell completion, by the protocol of each shell: words of the store, and silence where there is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.command_line import Outcome, environment
from support.warm_processes import afl_warm

Shell = Callable[[Path, str], Outcome]
SOURCE = """
namespace news {
    workflow Evening(a: String) => (b: String) andThen { yield Evening(b = $.a) }
    workflow Morning(a: String) => (b: String) andThen { yield Morning(b = $.a) }
}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a source, and a run of it on a task list of its own."""
    folder = tmp_path_factory.mktemp("completion")
    (folder / "news.afl").write_text(SOURCE)
    done = afl_warm(
        *("submit", "news.afl", "news.Morning", "--input", "a=x", "--task-list", "night"), folder=folder
    )
    assert done.code == 0, done.err
    (folder / "run").write_text(done.out.strip())
    return folder


def bash(folder: Path, line: str) -> Outcome:
    """What bash offers at the end of a line."""
    words = line.split(" ")
    return afl_warm(
        folder=folder, _AFL_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    )


def zsh(folder: Path, line: str) -> Outcome:
    """What zsh evaluates at the end of a line."""
    return afl_warm(folder=folder, _AFL_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)


def fish(folder: Path, line: str) -> Outcome:
    """What fish reads at the end of a line."""
    return afl_warm(
        folder=folder,
        _AFL_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS=line,
    )


@pytest.mark.parametrize(
    "command",
    [
        *("show", "why", "resume", "logs", "wait", "cancel", "pause", "unpause", "retry", "query", "signal"),
        *("list --before", "tasks --run"),
    ],
)
def test_run_ids(place: Path, command: str) -> None:
    run = (place / "run").read_text()
    done = bash(place, f"afl {command} {run[:4]}")
    assert (done.code, done.out.split(), done.err) == (0, [run], "")
    assert bash(place, f"afl {command} zzz").out.strip() == ""


def test_zsh_and_fish_show_which_run_it_is(place: Path) -> None:
    run = (place / "run").read_text()
    assert zsh(place, "afl show ").out.strip() == f"""_arguments '*: :(("{run}":"news.Morning, created"))'"""
    assert fish(place, "afl show ").out.strip() == f"{run}\tnews.Morning, created"


@pytest.mark.parametrize("shell", [bash, fish])
def test_workflows_of_the_named_file(place: Path, shell: Shell) -> None:
    assert shell(place, "afl run news.afl ").out.split() == ["news.Evening", "news.Morning"]
    assert shell(place, "afl submit news.afl news.M").out.split() == ["news.Morning"]


def test_workflows_and_task_lists_of_the_store(place: Path) -> None:
    assert bash(place, "afl list --workflow ").out.split() == ["news.Morning"]
    assert bash(place, "afl tasks --list ").out.split() == ["night"]
    assert bash(place, "afl agent x.py --task-list n").out.split() == ["night"]


def test_commands_and_options(place: Path) -> None:
    assert bash(place, "afl unp").out.split() == ["unpause"]
    assert "--task-list" in bash(place, "afl submit --").out.split()


@pytest.mark.parametrize("shell", [bash, zsh, fish])
def test_a_store_that_is_named_is_read(place: Path, tmp_path: Path, shell: Shell) -> None:
    run = (place / "run").read_text()
    assert run in shell(tmp_path, f"afl show --store sqlite:///{place}/.afl/afl.db ").out


@pytest.mark.parametrize("shell", [bash, zsh, fish])
@pytest.mark.parametrize(
    "line",
    [
        *("afl show ", "afl list --workflow ", "afl agent x.py --task-list ", "afl run none.afl "),
        *("afl show --server http://127.0.0.1:9 ", "afl show --store nonsense://x "),
    ],
)
def test_without_a_store_nothing_is_offered_said_or_made(tmp_path: Path, shell: Shell, line: str) -> None:
    done = shell(tmp_path, line)
    assert (done.code, done.out.strip() in ("", "_files"), done.err) == (0, True, "")
    assert list(tmp_path.iterdir()) == []


def test_bash_itself_completes(place: Path) -> None:
    run = (place / "run").read_text()
    (place / "afl").write_text(f'#!/bin/sh\nexec {sys.executable} -m afl "$@"\n')
    (place / "afl").chmod(0o755)
    script = f"""
        eval "$(_AFL_COMPLETE=source_bash ./afl)"
        COMP_WORDS=(./afl show {run[:4]}) COMP_CWORD=2
        _afl_completion ./afl
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=place,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout.split(), done.stderr) == ([run], "")
