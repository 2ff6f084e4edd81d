"""The nodes of a parsed AFL program.

Every node carries a `node_id` and a `location`; neither takes part in comparison, so two parses of one text
are equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from afl.language.node import ASTNode, SourceLocation

# ---- types -----------------------------------------------------------------------------------------------


@dataclass
class TypeRef(ASTNode):
    """A builtin type or the name of a schema or facet."""

    name: str


@dataclass
class ArrayType(ASTNode):
    """`[T]`."""

    element_type: TypeExpr


TypeExpr: TypeAlias = TypeRef | ArrayType


# ---- expressions -----------------------------------------------------------------------------------------


@dataclass
class Literal(ASTNode):
    """A constant; `kind` is string, integer, double, boolean or null."""

    value: str | int | float | bool | None
    kind: str


@dataclass
class Reference(ASTNode):
    """`$.a.b` (is_input) or `step.attribute`; the path has no `$`."""

    path: list[str]
    is_input: bool


@dataclass
class ConcatExpr(ASTNode):
    """`a ++ b ++ c`, one flat node."""

    operands: list[Expression]


@dataclass
class BinaryExpr(ASTNode):
    """Arithmetic, comparison or boolean operator, by its spelling."""

    operator: str
    left: Expression
    right: Expression


@dataclass
class UnaryExpr(ASTNode):
    """`-x` or `!x`."""

    operator: str
    operand: Expression


@dataclass
class IndexExpr(ASTNode):
    """`target[index]`; `target[0].name` is an index by the text "name"."""

    target: Expression
    index: Expression


@dataclass
class ArrayLiteral(ASTNode):
    """`[a, b]`."""

    elements: list[Expression] = field(default_factory=list)


@dataclass
class MapEntry(ASTNode):
    """One `key: value` of a map literal."""

    key: str
    value: Expression


@dataclass
class MapLiteral(ASTNode):
    """`#{key: value}`."""

    entries: list[MapEntry] = field(default_factory=list)


Expression: TypeAlias = (
    Literal | Reference | ConcatExpr | BinaryExpr | UnaryExpr | IndexExpr | ArrayLiteral | MapLiteral
)


# ---- calls -----------------------------------------------------------------------------------------------


@dataclass
class NamedArg(ASTNode):
    """One argument. An empty name marks a positional one, which binds to the first parameter."""

    name: str
    value: Expression


@dataclass
class MixinSig(ASTNode):
    """`with M(...)` of a signature."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@dataclass
class MixinCall(ASTNode):
    """`with M(...)` of a call."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    alias: str | None = None


@dataclass
class CallExpr(ASTNode):
    """A facet, workflow or schema with arguments."""

    name: str
    args: list[NamedArg] = field(default_factory=list)
    mixins: list[MixinCall] = field(default_factory=list)


# ---- statements and blocks -------------------------------------------------------------------------------


@dataclass
class StepStmt(ASTNode):
    """`name = Call(...)`, with inline bodies and a catch."""

    name: str
    call: CallExpr
    body: AndThenBlock | list[AndThenBlock] | None = None
    catch: CatchClause | None = None


@dataclass
class SysLogStmt(ASTNode):
    """`sys.log(a = ..., b = ...)`."""

    args: list[NamedArg] = field(default_factory=list)


@dataclass
class SysAssertStmt(ASTNode):
    """`sys.assert(condition)`."""

    condition: Expression


@dataclass
class YieldStmt(ASTNode):
    """`yield Target(...)`."""

    call: CallExpr


Statement: TypeAlias = StepStmt | SysLogStmt | SysAssertStmt


@dataclass
class Block(ASTNode):
    """Statements, then yields."""

    steps: list[Statement] = field(default_factory=list)
    yield_stmts: list[YieldStmt] = field(default_factory=list)

    @property
    def yield_stmt(self) -> YieldStmt | None:
        """The first yield, if there is one."""
        return self.yield_stmts[0] if self.yield_stmts else None


@dataclass
class ForeachClause(ASTNode):
    """`foreach variable in iterable`."""

    variable: str
    iterable: Expression


@dataclass
class WhenCase(ASTNode):
    """`case condition => { ... }`; no condition means the default `case _`."""

    condition: Expression | None
    block: Block

    @property
    def is_default(self) -> bool:
        return self.condition is None


@dataclass
class WhenBlock(ASTNode):
    """The cases of a `when`."""

    cases: list[WhenCase] = field(default_factory=list)


@dataclass
class CatchClause(ASTNode):
    """`catch { ... }` or `catch when { ... }`."""

    block: Block | None = None
    when: WhenBlock | None = None


@dataclass
class AndThenBlock(ASTNode):
    """One `andThen`: a block, a block per element (`foreach`), or cases (`when`, the block is then empty)."""

    block: Block
    foreach: ForeachClause | None = None
    when: WhenBlock | None = None


@dataclass
class PromptBlock(ASTNode):
    """What a model is asked when it handles the event facet."""

    system: str | None = None
    template: str | None = None
    model: str | None = None


# ---- declarations ----------------------------------------------------------------------------------------


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


Body: TypeAlias = AndThenBlock | list[AndThenBlock] | PromptBlock | None


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


def clauses(body: Body) -> list[AndThenBlock]:
    """The `andThen` blocks of a body, whichever form it has."""
    if isinstance(body, AndThenBlock):
        return [body]
    return body if isinstance(body, list) else []


__all__ = [
    "ASTNode",
    "AndThenBlock",
    "ArrayLiteral",
    "ArrayType",
    "BinaryExpr",
    "Block",
    "Body",
    "CallExpr",
    "CatchClause",
    "ConcatExpr",
    "Declaration",
    "DocComment",
    "DocEntry",
    "EventFacetDecl",
    "Expression",
    "FacetDecl",
    "FacetLike",
    "FacetSig",
    "ForeachClause",
    "ImplicitDecl",
    "IndexExpr",
    "Literal",
    "MapEntry",
    "MapLiteral",
    "MixinCall",
    "MixinSig",
    "NamedArg",
    "Namespace",
    "Parameter",
    "Program",
    "PromptBlock",
    "Reference",
    "ReturnClause",
    "SchemaDecl",
    "SchemaField",
    "SourceLocation",
    "Statement",
    "StepStmt",
    "SysAssertStmt",
    "SysLogStmt",
    "TypeExpr",
    "TypeRef",
    "UnaryExpr",
    "UsesDecl",
    "WhenBlock",
    "WhenCase",
    "WorkflowDecl",
    "YieldStmt",
    "clauses",
]
