"""Errors as people read them: code, place, message, the line with a caret, and a hint. One form for all of them.

What the form is, `afl.language.diagnostics.render` says; here it is colored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from rich.text import Text

from afl.cli.console import say
from afl.kernel.errors import AgentFlowError, InputError, SourcePlace
from afl.kernel.traceback_text import own_place
from afl.language.diagnostics import CompileError, Diagnostic, render
from afl.operations.run.run_store import UnknownRun

if TYPE_CHECKING:
    from afl.runtime.entities import RunDefinition

_STYLES = {"error": "bold red", "warning": "bold yellow"}
_GENERAL = (AgentFlowError.hint, InputError.hint)  # of no help beside a text that says what was wrong
_DEFECT = "This is a defect of AgentFlow; AFL_DEBUG=1 shows where it happened."
_TRACE = "AFL_DEBUG=1 shows the traceback."


def report(error: Exception) -> None:
    """Say what went wrong; a trace only helps those who set AFL_DEBUG."""
    if isinstance(error, CompileError):
        print_findings(error.diagnostics, error.sources)
    elif isinstance(error, AgentFlowError):
        hint = "" if error.hint in _GENERAL else error.hint
        problem(str(error), code=error.code, hint=hint, place=error.place)
        if isinstance(error, UnknownRun):
            _list_latest(error.latest)
    else:
        place = own_place(error)
        problem(str(error), code=type(error).__name__, hint=_TRACE if place else _DEFECT, place=place)


def report_usage(message: str, command: str) -> None:
    """Say what is wrong with the words of a command."""
    shown = "shows what it takes" if " " in command else "lists the commands"
    problem(message, code="usage", hint=f"`{command} --help` {shown}.")


def problem(text: str, *, code: str, hint: str = "", place: SourcePlace | None = None) -> None:
    """Say what went wrong, and where in a file if that is known."""
    found = Diagnostic(text, rule_id=code, suggested_fix=hint or None)
    if place is None:
        say(finding(found))
        return
    found.source_id, found.line, found.column = place
    say(finding(found, _text(place.file)))


def print_findings(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """All findings of the compiler."""
    for each in diagnostics:
        say(finding(each, sources.get(each.source_id or "")))


def finding(diagnostic: Diagnostic, source: str | None = None) -> Text:
    """One finding in color; its line is shown if the text of its source is at hand."""
    style = _STYLES[diagnostic.severity]
    head, *rest = render(diagnostic, source).split("\n")
    code, bracket, message = head.partition("]")
    text = Text.assemble((code + bracket, style), message)
    for line in rest:
        is_caret = "^" in line and set(line) <= set(" |^\t")
        text.append(f"\n{line}", style if is_caret else "cyan" if line.startswith("  hint: ") else "")
    return text


def file_problem(path: str, line: int, key: str, message: str, *, is_here: bool = False) -> Text:
    """What is wrong in a workflow file of the fleet; line 0 is the file as a whole, which may be on another machine."""
    text = f"{key}: {message}" if key else message
    if not line:
        return finding(Diagnostic(f"{path}: {text}", rule_id="workflow-file-error"))
    found = Diagnostic(text, line, rule_id="workflow-file-error", source_id=path)
    return finding(found, _text(path) if is_here else None)


def _text(file: str) -> str | None:
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _list_latest(runs: Sequence[RunDefinition]) -> None:
    """The runs that an error about an unknown run carries."""
    if runs:
        say("The latest runs are:")
    for each in runs:
        began = datetime.fromtimestamp(each.created / 1000).strftime("%Y-%m-%d %H:%M:%S")
        say(f"  {each.workflow_id}  {began}  {each.state:<9}  {each.workflow_name}")
