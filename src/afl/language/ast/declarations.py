"""Declarations with their types and signatures, and the program they make up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from afl.language.ast.blocks import Body, CatchClause
from afl.language.ast.expressions import CallExpr, Expression, MixinSig
from afl.language.ast.node import ASTNode


@dataclass
class TypeRef(ASTNode):
    """A builtin type or the name of a schema or facet."""

    name: str


@dataclass
class ArrayType(ASTNode):
    """`[T]`."""

    element_type: TypeExpr


TypeExpr: TypeAlias = TypeRef | ArrayType


@dataclass
class Parameter(ASTNode):
    """A parameter or a return value."""

    name: str
    type: TypeExpr
    default: Expression | None = None


@dataclass
class ReturnClause(ASTNode):
    """`=> (...)`."""

    params: list[Parameter] = field(default_factory=list)


@dataclass
class FacetSig(ASTNode):
    """Name, parameters, returns and mixins."""

    name: str
    params: list[Parameter] = field(default_factory=list)
    returns: ReturnClause | None = None
    mixins: list[MixinSig] = field(default_factory=list)


@dataclass
class DocEntry(ASTNode):
    """`@param name text` or `@return name text`."""

    name: str
    description: str


@dataclass
class DocComment(ASTNode):
    """A `/** */` that stands before a declaration."""

    description: str = ""
    params: list[DocEntry] = field(default_factory=list)
    returns: list[DocEntry] = field(default_factory=list)


@dataclass
class FacetDecl(ASTNode):
    """`facet F(...)`: a named, typed bundle of values, maybe with a body that computes its returns."""

    sig: FacetSig
    body: Body = None
    catch: CatchClause | None = None
    doc: DocComment | None = None


@dataclass
class EventFacetDecl(ASTNode):
    """`event facet F(...)`: a facet whose returns come from an agent."""

    sig: FacetSig
    body: Body = None
    catch: CatchClause | None = None
    doc: DocComment | None = None


@dataclass
class WorkflowDecl(ASTNode):
    """`workflow W(...)`: what can be run."""

    sig: FacetSig
    body: Body = None
    catch: CatchClause | None = None
    doc: DocComment | None = None


FacetLike: TypeAlias = FacetDecl | EventFacetDecl | WorkflowDecl


@dataclass
class ImplicitDecl(ASTNode):
    """`implicit name = F(...)`: arguments supplied to every call of F that lacks them."""

    name: str
    call: CallExpr


@dataclass
class UsesDecl(ASTNode):
    """`uses a.b`."""

    name: str


@dataclass
class SchemaField(ASTNode):
    """One typed field of a schema."""

    name: str
    type: TypeExpr


@dataclass
class SchemaDecl(ASTNode):
    """`schema S { ... }`."""

    name: str
    fields: list[SchemaField] = field(default_factory=list)
    doc: DocComment | None = None


Declaration: TypeAlias = FacetLike | ImplicitDecl | SchemaDecl


@dataclass
class Namespace(ASTNode):
    """One `namespace a.b { ... }` block."""

    name: str
    uses: list[UsesDecl] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    implicits: list[ImplicitDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)
    doc: DocComment | None = None


@dataclass
class Program(ASTNode):
    """A whole source, or several merged."""

    namespaces: list[Namespace] = field(default_factory=list)
    facets: list[FacetDecl] = field(default_factory=list)
    event_facets: list[EventFacetDecl] = field(default_factory=list)
    workflows: list[WorkflowDecl] = field(default_factory=list)
    implicits: list[ImplicitDecl] = field(default_factory=list)
    schemas: list[SchemaDecl] = field(default_factory=list)

    @classmethod
    def merge(cls, programs: Iterable[Program]) -> Program:
        """All declarations of the given programs, in order; duplicates are for the validator to find."""
        merged = cls()
        for program in programs:
            merged.namespaces += program.namespaces
            merged.facets += program.facets
            merged.event_facets += program.event_facets
            merged.workflows += program.workflows
            merged.implicits += program.implicits
            merged.schemas += program.schemas
        return merged
