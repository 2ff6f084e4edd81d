"""The command as a whole: which command is meant, help, exit codes, and how errors are told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.command_line import Afl

from afl import __version__
from afl.cli import app
from afl.cli.app import COMMANDS
from afl.kernel.errors import MissingExtraError


def test_version(afl: Afl) -> None:
    done = afl("--version")
    assert (done.code, done.out) == (0, f"afl {__version__}\n")


def test_help_lists_every_command(afl: Afl) -> None:
    done = afl("--help")
    assert done.code == 0
    assert [name for name in COMMANDS if name not in done.out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_of_its_own(afl: Afl, name: str) -> None:
    done = afl(name, "--help")
    assert done.code == 0
    assert f"afl {name}" in done.out


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_examples(afl: Afl, name: str) -> None:
    assert "Examples" in afl(name, "--help").out


@pytest.mark.parametrize("name", ["list", "bulk"])
def test_the_help_of_an_option_with_many_choices_fits_a_terminal(afl: Afl, name: str) -> None:
    words = afl(name, "--help").out
    assert "waiting:person, waiting:signal" in " ".join(words.split())
    assert [line for line in words.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(("name", "absent"), [("dashboard", "mcp"), ("mcp", "jinja2")])
def test_a_server_needs_no_package_of_another(name: str, absent: str) -> None:
    code = f"import sys; sys.modules[{absent!r}] = None; from afl.cli.app import main; sys.exit(main())"
    command = [sys.executable, "-c", code, name, "--port", "none"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "Invalid value for '--port'" in done.stderr) == (2, True)


def test_help_tells_the_exit_codes(afl: Afl) -> None:
    words = " ".join(afl("--help").out.split())
    assert "Exit code: 0 completed or paused, 1 failed, 2 usage error, 3 timed out, 130 interrupted." in words


def test_a_misspelled_command_gets_a_suggestion(afl: Afl) -> None:
    done = afl("shwo", "x")
    assert (done.code, done.out) == (2, "")
    assert "did you mean 'show'?" in done.err


@pytest.mark.parametrize("word", ["servers", "top", "help"])
def test_a_word_that_is_no_command_is_not_taken_for_a_file(afl: Afl, word: str) -> None:
    done = afl(word, "--json")
    assert done.code == 2
    assert f"there is no command '{word}', and no such file" in done.err
    assert "`afl --help` lists the commands" in done.err


def test_a_word_that_is_a_file_is_compiled(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("facet A()\n")
    assert afl("runs", "--check").err == "OK: 1 source(s) parsed successfully\n"


def test_an_unknown_option_is_wrong_usage(afl: Afl) -> None:
    done = afl("run", "--nope")
    assert (done.code, done.out) == (2, "")
    assert "--nope" in done.err


def test_an_option_that_is_an_argument_says_how_to_write_it(afl: Afl) -> None:
    done = afl("run", "news.afl", "--workflow", "news.Page")
    assert done.code == 2
    assert "workflow is an argument, not an option: afl run [OPTIONS] FILE [WORKFLOW]" in done.err


def test_a_missing_argument_is_wrong_usage(afl: Afl) -> None:
    assert afl("resume").code == 2


def test_a_bad_setting_names_its_variable(afl: Afl, doubling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFL_COMMIT_STEPS", "many")
    done = afl("run", doubling, "--input", "n=1")
    assert done.code == 1
    assert "AFL_COMMIT_STEPS" in done.err


def test_a_defect_shows_no_trace_unless_asked_for(
    afl: Afl, doubling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.operations.run.run_store.store_of", lambda settings: 1)
    done = afl("run", doubling, "--input", "n=1")
    assert done.code == 1
    assert "error[AttributeError]: 'int' object" in done.err
    assert "hint: This is a defect of AgentFlow" in done.err
    assert "Traceback" not in done.err
    monkeypatch.setenv("AFL_DEBUG", "1")
    with pytest.raises(AttributeError):
        afl("run", doubling, "--input", "n=1")


@pytest.mark.parametrize("command", [["agent"], ["turns", "worker"]])
def test_an_error_of_the_users_own_code_is_shown_where_it_is(
    afl: Afl, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("guide.py").write_text(
        "from afl.turns import agent\n\n"
        "def deps():\n    return open('rates.csv').read()\n\n"
        "guide = agent('guide', 'You help.')\n"
    )
    done = afl(*command, "guide.py", "--store", "memory://")
    assert done.code == 1
    assert "error[FileNotFoundError] guide.py:4:12: [Errno 2] No such file" in done.err
    assert "    return open('rates.csv').read()" in done.err
    assert "defect" not in done.err


def test_help_of_a_part_that_is_not_installed_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(module: str) -> None:
        raise MissingExtraError(f"{module} needs more: pip install 'agentflow-afl[fleet]'")

    monkeypatch.setattr(app, "importlib", SimpleNamespace(import_module=missing))
    assert app.main(["fleet", "--help"]) == 0
    told = capsys.readouterr().out
    assert COMMANDS["fleet"].summary in told and "'agentflow-afl[fleet]'" in told
    assert app.main(["fleet", "list"]) == 1
