"""A source as an editor has it: parsed and checked together with the sources that it uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import takewhile

from afl.language.ast.declarations import Program, TypeRef, UsesDecl
from afl.language.ast.expressions import CallExpr, MixinCall, MixinSig
from afl.language.ast.node import ASTNode
from afl.language.diagnostics import Diagnostic
from afl.language.names import Names
from afl.language.parser import AFLParser, ParseError
from afl.language.validator import AFLValidator

_NAMESPACE = re.compile(r"^\s*namespace\s+([\w.]+)", re.MULTILINE)


@dataclass(frozen=True)
class Analysis:
    """What is known of one source. `ast` and `names` are None if it cannot be parsed."""

    source_id: str
    findings: list[Diagnostic] = field(default_factory=list)
    ast: Program | None = None
    names: Names | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def analyze(source_id: str, text: str, others: Callable[[], Mapping[str, str]]) -> Analysis:
    """Parse and check a source; of the others, those count that have the namespaces it mentions."""
    try:
        ast = AFLParser().parse(text, source_id=source_id)
    except ParseError as error:
        return Analysis(source_id, error.diagnostics)
    texts = {source_id: text}
    programs = [ast]
    broken: list[Diagnostic] = []
    for program in programs:  # it grows: those that are used may use others
        mentioned = _mentioned(program)
        candidates = others() if mentioned else {}
        for other in _declaring(mentioned, candidates, source_id):
            if other not in texts:
                texts[other] = candidates[other]
                try:
                    programs.append(AFLParser().parse(texts[other], source_id=other))
                except ParseError as error:
                    broken += error.diagnostics
    whole = programs[0] if len(programs) == 1 else Program.merge(programs)
    names = Names(whole)
    result = AFLValidator().validate(whole, names)
    # With half the names missing, no check makes sense.
    found = broken or result.errors + result.warnings
    return Analysis(source_id, [each for each in found if each.source_id == source_id], ast, names, texts)


def _mentioned(program: Program) -> set[str]:
    """The namespaces that a program uses, or names in front of a name."""
    dotted: set[str] = set()
    for node in walk(program):
        if isinstance(node, UsesDecl):
            dotted.add(node.name)
        elif isinstance(node, CallExpr | MixinCall | MixinSig | TypeRef):
            dotted.add(node.name.rpartition(".")[0])
    return dotted - {""} - {block.name for block in program.namespaces}


def _declaring(namespaces: set[str], others: Mapping[str, str], source_id: str) -> Iterator[str]:
    """The sources that declare them; of those in several folders, the ones in the nearest."""
    for namespace in sorted(namespaces):
        declaring = [each for each, text in others.items() if namespace in _NAMESPACE.findall(text)]
        nearest = max((_shared(each, source_id) for each in declaring), default=0)
        yield from (each for each in declaring if _shared(each, source_id) == nearest)


def _shared(one: str, other: str) -> int:
    """How many folders two addresses have in common."""
    pairs = zip(one.split("/")[:-1], other.split("/")[:-1], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def children(node: ASTNode) -> Iterator[ASTNode]:
    """The nodes directly below one."""
    for each in fields(node):
        value = getattr(node, each.name)
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, ASTNode):
                yield one


def walk(node: ASTNode) -> Iterator[ASTNode]:
    """A node and all below it."""
    yield node
    for child in children(node):
        yield from walk(child)
