"""What every check needs: names, signatures, and a place to report to."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl.kernel.near_names import near_name, some
from afl.language.ast.declarations import ImplicitDecl, Program
from afl.language.ast.node import ASTNode
from afl.language.checks.signatures import Signatures
from afl.language.diagnostics import Diagnostic, ValidationResult
from afl.language.functions import FUNCTIONS
from afl.language.names import CALLABLE, Names, Symbol

MAX_ERRORS = 1_000
MAX_SUGGESTIONS = 25
_NO_STEPS = {
    "sys.assert": (
        "an assertion has no name; steps that must wait for it follow a step whose facet asserts it in its body"
    ),
    "sys.log": "a log has no name and no value: leave out what stands before 'sys.log'",
}


class EnoughErrors(Exception):
    """A program has so many errors that nobody looks for more."""


class Context:
    """One validation."""

    def __init__(self, program: Program, names: Names) -> None:
        self.program = program
        self.names = names
        self.signatures = Signatures(names)
        self.result = ValidationResult()
        self.implied = self._implied()

    def error(self, node: ASTNode, rule_id: str, message: str, fix: str | None = None) -> None:
        """Note it; EnoughErrors behind the last that is noted."""
        if len(self.result.errors) >= MAX_ERRORS:
            raise EnoughErrors
        self.result.add(Diagnostic.at(node.location, message, rule_id, fix=fix))

    def warning(self, node: ASTNode, rule_id: str, message: str, fix: str | None = None) -> None:
        self.result.add(Diagnostic.at(node.location, message, rule_id, fix=fix, severity="warning"))

    def find(
        self, node: ASTNode, name: str, namespace: str, kinds: frozenset[str] = CALLABLE
    ) -> Symbol | None:
        """What the name means; reports a name that means nothing or too much."""
        found = self.names.find(name, namespace, kinds)
        if found.is_ambiguous:
            options = ", ".join(some(symbol.full_name for symbol in found.candidates))
            message = (
                f"Ambiguous facet reference '{name}': could be {options}. "
                "Use fully qualified name to disambiguate."
            )
            self.error(node, "REF_AMBIGUOUS_FACET", message)
        elif found.symbol is None:
            fix = self.suggest(name, lambda: self.names.known(kinds))
            if name in FUNCTIONS:
                fix = f"'{name}' is a function: write it in the argument or yield that uses the value"
            else:
                fix = _NO_STEPS.get(name, fix)
            self.error(node, "REF_UNKNOWN_FACET", f"Unknown facet '{name}'", fix)
        return found.symbol

    def suggest(self, name: str, known: Callable[[], Iterable[str]]) -> str | None:
        """Something similar, if it exists. Searching is slow, so only the first errors of a program get it."""
        if len(self.result.errors) >= MAX_SUGGESTIONS:
            return None
        return _did_you_mean(name, list(known()))

    def implicits(self) -> Iterable[tuple[str, ImplicitDecl]]:
        """Every implicit with its namespace."""
        yield from (("", one) for one in self.program.implicits)
        for block in self.program.namespaces:
            yield from ((block.name, one) for one in block.implicits)

    def _implied(self) -> dict[str, dict[str, tuple[str, ImplicitDecl]]]:
        """By facet, the arguments that implicits supply, each with the first that does and its namespace."""
        implied: dict[str, dict[str, tuple[str, ImplicitDecl]]] = {}
        for namespace, implicit in self.implicits():
            symbol = self.names.symbol(implicit.call.name, namespace)
            if symbol is not None:
                first = next((param.name for param in symbol.params), "")
                supplied = implied.setdefault(symbol.full_name, {})
                for arg in implicit.call.args:
                    supplied.setdefault(arg.name or first, (namespace, implicit))
        return implied


def _did_you_mean(name: str, options: list[str]) -> str | None:
    close = near_name(name, options)
    if not close:
        # The right short name in the wrong namespace is as near as it gets.
        short = name.rpartition(".")[2]
        close = next((one for one in options if one.rpartition(".")[2] == short), "")
    return f"did you mean '{close}'?" if close else None
