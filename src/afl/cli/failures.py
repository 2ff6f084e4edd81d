"""A failed run, and a run that is not there, as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from rich.text import Text

from afl.language.diagnostics import Diagnostic, render
from afl.operations.run.attempts import AttemptView, last_failure
from afl.runtime.errors import StepFailure

T = TypeVar("T")


def failure_text(
    run: str,
    workflow: str,
    failure: StepFailure,
    *,
    source: str | None = None,
    hint: str = "",
    attempts: Sequence[AttemptView] = (),
) -> Text:
    """Which step, which facet, where and why; with the source line if its text is at hand, and the traceback."""
    text = Text.assemble(("Failed", "bold red"), f": run {run} of {workflow}")
    facet = f" = {failure.facet}" if failure.facet and failure.facet != failure.step else ""
    _line(text, "step", f"{failure.step}{facet}")
    if failure.line is not None:
        place = f"{failure.source}:{failure.line}" if failure.source else f"line {failure.line}"
        _line(text, "at", place if failure.column is None else f"{place}:{failure.column}")
        for line in _excerpt(failure, source):
            text.append(f"\n         {line}", "dim")
    _line(text, "cause", f"{failure.error_type}: {failure.message}")
    failed = last_failure(attempts)
    if failed is not None and failed.traceback:
        _line(text, "raised", f"in attempt {failed.number}" if len(attempts) > 1 else "")
        for line in failed.traceback.split("\n"):
            text.append(f"\n    {line}".rstrip(" "))
    if hint:
        _line(text, "look", hint)
    return text


def _line(text: Text, label: str, value: str) -> None:
    text.append(f"\n  {label:<6} ", "bold").append(value)


def _excerpt(failure: StepFailure, source: str | None) -> list[str]:
    place = Diagnostic("", failure.line, failure.column, source_id=failure.source)
    return render(place, source).split("\n")[2:] if source is not None and failure.source else []
