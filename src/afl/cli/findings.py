"""The compiler's findings, each with its source line and a caret."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.text import Text

from afl.cli.console import say
from afl.language.diagnostics import Diagnostic, render

_STYLES = {"error": "bold red", "warning": "bold yellow"}


def print_findings(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> None:
    """All findings, on standard error."""
    for each in diagnostics:
        say(finding(each, sources.get(each.source_id or "")))


def finding(diagnostic: Diagnostic, source: str | None) -> Text:
    """`Error: what at line L, column C`, then the place, the line with a caret, and a way out."""
    text = Text.assemble(
        (f"{diagnostic.severity.capitalize()}:", _STYLES[diagnostic.severity]), f" {diagnostic}"
    )
    for line in render(diagnostic, source).split("\n")[1:]:
        text.append("\n")
        if line.startswith("  --> "):
            text.append(f"{line} [{diagnostic.rule_id}]", "dim")
        elif set(line) <= set(" |^\t") and "^" in line:
            text.append(line, _STYLES[diagnostic.severity])
        else:
            text.append(line, "cyan" if line.startswith("  = ") else "")
    return text
