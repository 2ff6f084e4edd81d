"""What the compiler has to say about a program: one message, its rule, its place, and a way out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from afl.kernel.errors import InputError
from afl.language.ast.node import SourceLocation

MAX_SHOWN = 100
"""How many findings the text of one error shows."""

WIDEST = 240
"""How many characters of a source line it shows; of a longer one, those around the place."""


@dataclass
class Diagnostic:
    """One finding. `str()` is the one-line form; `render` shows code, place, the line with a caret and a hint."""

    message: str
    line: int | None = None
    column: int | None = None
    rule_id: str = "UNKNOWN"
    severity: str = "error"
    suggested_fix: str | None = None
    source_id: str | None = None
    end_column: int | None = None

    @property
    def docs_uri(self) -> str:
        return f"afl://docs/rules/{self.rule_id}"

    def __str__(self) -> str:
        text = self.message
        if self.line is not None:
            text += f" at line {self.line}"
            if self.column is not None:
                text += f", column {self.column}"
        return text

    @classmethod
    def at(
        cls,
        location: SourceLocation | None,
        message: str,
        rule_id: str,
        *,
        fix: str | None = None,
        severity: str = "error",
    ) -> Diagnostic:
        """A finding about the node that stands at `location`."""
        if location is None:
            return cls(message, rule_id=rule_id, severity=severity, suggested_fix=fix)
        one_line = location.end_line == location.line
        return cls(
            message,
            location.line,
            location.column,
            rule_id,
            severity,
            fix,
            location.source_id,
            location.end_column if one_line else None,
        )


ValidationError = Diagnostic


@dataclass
class ValidationResult:
    """Everything the validator found; a program with warnings only is valid."""

    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)

    @property
    def is_valid(self) -> bool:
        return not self.errors

    def add_error(
        self, message: str, location: SourceLocation | None = None, rule_id: str = "UNKNOWN"
    ) -> None:
        self.errors.append(Diagnostic.at(location, message, rule_id))

    def add_warning(
        self, message: str, location: SourceLocation | None = None, rule_id: str = "UNKNOWN"
    ) -> None:
        self.warnings.append(Diagnostic.at(location, message, rule_id, severity="warning"))

    def add(self, finding: Diagnostic) -> None:
        (self.warnings if finding.severity == "warning" else self.errors).append(finding)


class CompileError(InputError, hint="Correct the lines that are shown; `afl check FILE` shows all of them."):
    """A source does not compile; `diagnostics` has every finding, the text shows each with its line."""

    def __init__(
        self, diagnostics: Iterable[Diagnostic], sources: Mapping[str, str], text: str | None = None
    ) -> None:
        self.diagnostics = list(diagnostics)
        self.sources = sources
        super().__init__(render_all(self.diagnostics, sources) if text is None else text)


def render(diagnostic: Diagnostic, source: str | None = None) -> str:
    """The finding as a person reads it; every error of AgentFlow is shown in this form.

    error[CODE] file:line:column: message
    12 | the line
       |     ^^^^
      hint: what to do
    """
    return _rendered(diagnostic, source.split("\n") if source is not None else None)


def _rendered(diagnostic: Diagnostic, source: Sequence[str] | None) -> str:
    lines = [f"{diagnostic.severity}[{diagnostic.rule_id}]{_place(diagnostic)}: {diagnostic.message}"]
    lines += _excerpt(diagnostic, source)
    if diagnostic.suggested_fix:
        lines.append(f"  hint: {diagnostic.suggested_fix}")
    return "\n".join(lines)


def _place(diagnostic: Diagnostic) -> str:
    if diagnostic.line is None:
        return ""
    column = "" if diagnostic.column is None else f":{diagnostic.column}"
    return f" {diagnostic.source_id or '<string>'}:{diagnostic.line}{column}"


def render_all(diagnostics: Iterable[Diagnostic], sources: Mapping[str, str]) -> str:
    """All findings, a blank line between them."""
    found = list(diagnostics)
    lines = {source_id: text.split("\n") for source_id, text in sources.items()}
    shown = [_rendered(one, lines.get(one.source_id or "")) for one in found[:MAX_SHOWN]]
    if len(found) > MAX_SHOWN:
        shown.append(f"... and {len(found) - MAX_SHOWN} more")
    return "\n\n".join(shown)


def _excerpt(diagnostic: Diagnostic, source: Sequence[str] | None) -> list[str]:
    if source is None or diagnostic.line is None or diagnostic.line > len(source):
        return []
    whole = source[diagnostic.line - 1]
    first = max(0, (diagnostic.column or 1) - 1 - WIDEST // 2) if len(whole) > WIDEST else 0
    shown = whole[first : first + WIDEST].rstrip("\r")
    before, after = "..." if first else "", "..." if len(whole) > first + WIDEST else ""
    margin = str(diagnostic.line)
    lines = [f"{margin} | {before}{shown}{after}"]
    if diagnostic.column is not None:
        # Tabs stay tabs so that the caret stands under its character whatever the tab width.
        column = diagnostic.column - first
        lead = "".join("\t" if char == "\t" else " " for char in before + shown[: column - 1])
        width = max(1, min((diagnostic.end_column or 0) - first, len(shown) + 1) - column)
        lines.append(f"{' ' * len(margin)} | {lead}{'^' * width}")
    return lines
