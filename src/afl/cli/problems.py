"""Errors as people read them: what was wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.text import Text

from afl.cli.console import say
from afl.kernel.errors import AgentFlowError, HeldError

if TYPE_CHECKING:
    from afl.runtime.entities import RunDefinition

_ABOUT_SERVERS = ("unauthenticated", "throttled", "server-away", "server-differs")


def report(error: Exception) -> None:
    """Say what went wrong; a trace only helps those who set AFL_DEBUG."""
    if isinstance(error, AgentFlowError):
        problem(str(error))
        _list_latest(getattr(error, "latest", ()))
        if isinstance(error, HeldError):
            say("Wait until that process is done with it, or end it; then try again.")
        elif error.code in _ABOUT_SERVERS:
            say(error.hint)
        return
    problem(f"{type(error).__name__}: {error}")
    say("This is a defect of AgentFlow; AFL_DEBUG=1 shows where it happened.", "dim")


def _list_latest(runs: Sequence[RunDefinition]) -> None:
    """The runs that an error about an unknown run carries."""
    if runs:
        say("The latest runs are:")
    for each in runs:
        began = datetime.fromtimestamp(each.created / 1000).strftime("%Y-%m-%d %H:%M:%S")
        say(f"  {each.workflow_id}  {began}  {each.state:<9}  {each.workflow_name}")


def problem(text: str) -> None:
    """A message that begins with the word Error."""
    say(Text.assemble(("Error:", "bold red"), " ", text))
