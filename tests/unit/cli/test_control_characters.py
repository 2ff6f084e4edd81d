"""Escape sequences that a handler logs or raises reach no terminal: they are shown."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest
from rich.control import Control
from rich.text import Text
from support.command_line import Afl

from afl.cli import console
from afl.cli.console import SafeConsole, Table
from afl.kernel.control_characters import escaped_json, visible_controls, visible_formats
from afl.kernel.log import JsonFormatter, LineFormatter

EVIL = "\x1b]0;title\x07 \x1b[2J \x9b31m \x7f end"
WORKFLOW = """event facet Fetch() => (n: Long)
workflow Main() => (n: Long) andThen {
    a = Fetch()
    yield Main(n = a.n)
}
"""
AGENTS = f"""import afl


@afl.handler("Fetch")
def fetch(context):
    context.log({EVIL!r})
    raise ValueError({EVIL!r})
"""


def obeyed(text: str) -> set[str]:
    """The characters that a terminal would obey."""
    return {each for each in text if (each < " " and each not in "\n\t") or "\x7f" <= each <= "\x9f"}


def test_the_tab_and_the_line_feed_stay_as_they_are() -> None:
    assert visible_controls("a\tb\nc\x1b[0m\r\x7f\x9b\xa0é") == "a\tb\nc\\x1b[0m\\x0d\\x7f\\x9b\xa0é"


def test_formats_that_change_what_is_read_are_shown() -> None:
    hidden = "\u202e\u2066\u200b\u200e\ufeff\xad\U000e0041 pay\u200dpal"
    told = r"\u202e\u2066\u200b\u200e\ufeff\xad\udb40\udc41 pay\u200dpal"
    assert visible_controls(hidden) == visible_formats(hidden) == told
    assert visible_formats("\x1b\r\n") == "\x1b\r\n"
    document = json.dumps(hidden, ensure_ascii=False)
    assert escaped_json(document).isascii() and json.loads(escaped_json(document)) == hidden


@pytest.mark.parametrize(
    "text",
    [
        "\u05e9\u05dc\u05d5\u05dd",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d",
        "e\u0301",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\u2764\ufe0f\u200d\U0001f525",
        "\U0001f44d\U0001f3fd\u200d\u2640",
    ],
)
def test_spelling_stays_as_it_is(text: str) -> None:
    assert visible_controls(text) == text


def test_json_stays_the_same_value() -> None:
    document = json.dumps({"a": EVIL}, ensure_ascii=False)
    assert obeyed(document)
    assert not obeyed(escaped_json(document))
    assert json.loads(escaped_json(document)) == {"a": EVIL}


def test_no_command_prints_what_a_terminal_would_obey(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "main.afl").write_text(WORKFLOW)
    (tmp_path / "agents.py").write_text(AGENTS)
    outcomes = [afl("run", "main.afl", "--agent", "agents.py")]
    outcomes += [afl("show"), afl("why"), afl("logs"), afl("list"), afl("tasks", "--all"), afl("wait")]
    outcomes += [afl("show", "--json"), afl("logs", "--json"), afl("why", "--json")]
    assert [obeyed(outcome.out + outcome.err) for outcome in outcomes] == [set()] * len(outcomes)
    assert "\\x1b[2J" in outcomes[3].out


def test_styles_and_cursor_movements_of_our_own_keep_working() -> None:
    file = io.StringIO()
    shown = SafeConsole(file=file, force_terminal=True, color_system="standard", width=80)
    shown.print(Text("bad \x1b[2J", "red"))
    shown.print(Control.home(), end="")
    assert file.getvalue() == "\x1b[31mbad \\x1b[2J\x1b[0m\n\x1b[H"


def test_columns_are_as_wide_as_what_is_shown() -> None:
    table = Table("A", "B")
    table.add("\x1b[2J", "x")
    table.add("abcdefg", "y")
    file = io.StringIO()
    table.print(SafeConsole(file=file, width=80))
    assert file.getvalue().splitlines() == ["A        B", "\\x1b[2J  x", "abcdefg  y"]


@pytest.mark.parametrize("formatter", [LineFormatter(), JsonFormatter()])
def test_lines_of_log_are_safe(formatter: logging.Formatter) -> None:
    record = logging.makeLogRecord({"msg": EVIL, "levelname": "INFO", "name": "afl", "cause": EVIL})
    assert not obeyed(formatter.format(record))


def test_a_result_is_unchanged_in_a_pipe_and_safe_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe, terminal = io.StringIO(), io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    for file in (pipe, terminal):
        monkeypatch.setattr("sys.stdout", file)
        console.write(EVIL)
    assert pipe.getvalue() == EVIL
    assert not obeyed(terminal.getvalue())
