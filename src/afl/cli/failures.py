"""A failed run, and a run that is not there, as people read them."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from afl.cli.problems import finding
from afl.language.diagnostics import Diagnostic
from afl.operations.run.attempts import AttemptView, last_failure
from afl.runtime.errors import StepFailure


def failure_text(
    run: str,
    workflow: str,
    failure: StepFailure,
    *,
    source: str | None = None,
    hint: str = "",
    attempts: Sequence[AttemptView] = (),
) -> Text:
    """The error in the form of all errors, then which run and step it ended, the traceback, and where to look."""
    place = Diagnostic(
        failure.message,
        failure.line,
        failure.column,
        failure.error_type,
        source_id=failure.source or "<source>",
    )
    text = finding(place, source if failure.source else None)
    facet = f" = {failure.facet}" if failure.facet and failure.facet != failure.step else ""
    _line(text, "run", f"{run} of {workflow} failed")
    _line(text, "step", f"{failure.step}{facet}")
    failed = last_failure(attempts)
    if failed is not None and failed.traceback:
        _line(text, "raised", f"in attempt {failed.number}" if len(attempts) > 1 else "")
        for line in failed.traceback.split("\n"):
            text.append(f"\n    {line}".rstrip(" "))
    if hint:
        text.append(f"\n  hint: {hint}", "cyan")
    return text


def _line(text: Text, label: str, value: str) -> None:
    text.append(f"\n  {label:<6} " if value else f"\n  {label}", "bold").append(value)
