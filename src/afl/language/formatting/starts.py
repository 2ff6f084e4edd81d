"""Which nodes begin a line of their own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from afl.language.ast.blocks import Block, Body, CatchClause, StepStmt, WhenBlock, clauses
from afl.language.ast.declarations import FacetLike, Namespace, Program
from afl.language.ast.node import ASTNode


@dataclass(frozen=True)
class Starts:
    """Places (line, column) where lines begin, and which of them begin a declaration."""

    lines: frozenset[tuple[int, int]]
    declarations: frozenset[tuple[int, int]]


def starts_of(program: Program) -> Starts:
    declarations = _places(_declarations(program))
    return Starts(declarations | _places(_members(program)), declarations)


def _places(nodes: Iterator[ASTNode]) -> frozenset[tuple[int, int]]:
    return frozenset((node.location.line, node.location.column) for node in nodes if node.location)


def _declarations(owner: Program | Namespace) -> Iterator[ASTNode]:
    yield from owner.facets
    yield from owner.event_facets
    yield from owner.workflows
    yield from owner.implicits
    yield from owner.schemas
    for namespace in owner.namespaces if isinstance(owner, Program) else ():
        yield namespace
        yield from _declarations(namespace)


def _members(owner: Program | Namespace) -> Iterator[ASTNode]:
    for schema in owner.schemas:
        yield from schema.fields
    facets: list[FacetLike] = [*owner.facets, *owner.event_facets, *owner.workflows]
    for facet in facets:
        yield from _of_body(facet.body, facet.catch)
    if isinstance(owner, Namespace):
        yield from owner.uses
    else:
        for namespace in owner.namespaces:
            yield from _members(namespace)


def _of_body(body: Body, catch: CatchClause | None) -> Iterator[ASTNode]:
    for part in clauses(body):
        yield from _of_block(part.block)
        yield from _of_cases(part.when)
    if catch is not None:
        yield from _of_cases(catch.when)
        if catch.block is not None:
            yield from _of_block(catch.block)


def _of_block(block: Block) -> Iterator[ASTNode]:
    for statement in block.steps:
        yield statement
        if isinstance(statement, StepStmt):
            yield from _of_body(statement.body, statement.catch)
    yield from block.yield_stmts


def _of_cases(when: WhenBlock | None) -> Iterator[ASTNode]:
    for case in when.cases if when is not None else ():
        yield case
        yield from _of_block(case.block)
