"""AST to findings: the public face of validation."""

from __future__ import annotations

from contextlib import suppress

from afl.language.ast.declarations import Program
from afl.language.checks.context import Context, EnoughErrors
from afl.language.checks.declarations import Declarations, check_unique_names
from afl.language.diagnostics import Diagnostic, ValidationResult
from afl.language.names import Names


class AFLValidator:
    """Checks whole programs."""

    def validate(self, program: Program, names: Names | None = None) -> ValidationResult:
        """Everything that is wrong with the program, and what looks doubtful, in the order of the text.

        Of errors, a thousand.
        """
        context = Context(program, names or Names(program))
        with suppress(EnoughErrors):
            _check(context)
        context.result.errors.sort(key=_position)
        context.result.warnings.sort(key=_position)
        return context.result


def _check(context: Context) -> None:
    declarations = Declarations(context)
    check_unique_names(context)
    for block in context.program.namespaces:
        declarations.check_namespace(block)
    for symbol in context.names.symbols:
        declarations.check(symbol)
    for namespace, implicit in context.implicits():
        declarations.check_implicit(implicit, namespace)


def _position(finding: Diagnostic) -> tuple[str, int, int]:
    return finding.source_id or "", finding.line or 0, finding.column or 0


def validate(program: Program) -> ValidationResult:
    """Everything that is wrong with the program, and what looks doubtful, in the order of the text."""
    return AFLValidator().validate(program)
