"""Rule methods for signatures, declarations, namespaces and the program, and the parser of doc comments."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

from lark import Token

from afl.language.ast.blocks import Body, PromptBlock
from afl.language.ast.declarations import (
    Declaration,
    DocComment,
    DocEntry,
    EventFacetDecl,
    FacetDecl,
    FacetSig,
    ImplicitDecl,
    Namespace,
    Parameter,
    Program,
    ReturnClause,
    SchemaDecl,
    SchemaField,
    UsesDecl,
    WorkflowDecl,
)
from afl.language.ast.expressions import MixinSig
from afl.language.builder.base import Children
from afl.language.builder.statements import StatementBuilder, body_of

_TAG = re.compile(r"(?:^|(?<=\s))@(param|returns?)\s+")


def parse_doc(comment: str) -> DocComment:
    """The description and tags of a comment; a tag's text runs on to the next tag."""
    description, *tagged = _TAG.split(_unwrapped(comment))
    doc = DocComment(description.strip())
    for tag, text in zip(tagged[::2], tagged[1::2], strict=True):
        name, _, rest = text.partition(" ")
        entry = DocEntry(name.strip(), " ".join(rest.split()))
        (doc.params if tag == "param" else doc.returns).append(entry)
    return doc


def _unwrapped(comment: str) -> str:
    """The text without the comment marks and the star that leads each line."""
    inner = comment.removeprefix("/**").removesuffix("*/")
    return "\n".join(line.strip().removeprefix("*").strip() for line in inner.split("\n"))


FacetT = TypeVar("FacetT", FacetDecl, EventFacetDecl, WorkflowDecl)


class ProgramBuilder(StatementBuilder):
    """Declarations; the whole of the grammar."""

    # ---- signatures

    def param(self, children: Children) -> Parameter:
        default = children[4] if len(children) > 3 else None
        name = self.plain(children[0], "A parameter name")
        return Parameter(name, children[2], default, location=self.span(children))

    def returns(self, children: Children) -> ReturnClause:
        return ReturnClause(children[2], location=self.span(children))

    def signature(self, children: Children) -> FacetSig:
        name, _, params, _, returns, mixins = children
        return FacetSig(
            self.plain(name, "A declared name"),
            params,
            returns,
            [MixinSig(mixin.name, mixin.args, mixin.alias, location=mixin.location) for mixin in mixins],
            location=self.span(children),
        )

    def prompt(self, children: Children) -> PromptBlock:
        node = PromptBlock(location=self.span(children))
        for keyword, text in children[2]:
            if keyword.value not in ("system", "template", "model"):
                self.problem(
                    keyword,
                    f"Unknown prompt directive '{keyword}'",
                    "SYNTAX_PROMPT",
                    "a prompt has 'system', 'template' and 'model'",
                )
            elif getattr(node, keyword.value) is not None:
                self.problem(keyword, f"Prompt directive '{keyword}' stands twice", "SYNTAX_PROMPT")
            else:
                setattr(node, keyword.value, text)
        return node

    def directive(self, children: Children) -> tuple[Token, str]:
        return children[0], self.text(children[1])

    # ---- declarations

    def facet(self, children: Children) -> FacetDecl:
        return self._facet(FacetDecl, children)

    def event_facet(self, children: Children) -> EventFacetDecl:
        return self._facet(EventFacetDecl, children)

    def workflow(self, children: Children) -> WorkflowDecl:
        return self._facet(WorkflowDecl, children)

    def _facet(self, kind: type[FacetT], children: Children) -> FacetT:
        signature, body, catch, _ = children[-4:]
        whole: Body = body if isinstance(body, PromptBlock) else body_of(body)
        return kind(signature, whole, catch, location=self.span(children))

    def implicit(self, children: Children) -> ImplicitDecl:
        _, name, _, call, mixins, _ = children
        return ImplicitDecl(
            self.plain(name, "A declared name"), self.mixed(call, mixins), location=self.span(children)
        )

    def schema(self, children: Children) -> SchemaDecl:
        return SchemaDecl(
            self.plain(children[1], "A declared name"), children[3], location=self.span(children)
        )

    def field(self, children: Children) -> SchemaField:
        name, _, kind = children[:3]
        return SchemaField(self.plain(name, "A field name"), kind, location=self.between(name, kind))

    def uses(self, children: Children) -> UsesDecl:
        return UsesDecl(children[1].value, location=self.span(children))

    def namespace(self, children: Children) -> Namespace:
        node = Namespace(children[1].value, location=self.span(children))
        for member in _documented(children[3]):
            if isinstance(member, UsesDecl):
                node.uses.append(member)
            elif not isinstance(member, Namespace):
                _collect(node, member)
        return node

    def program(self, children: Children) -> Program:
        items = children[0]
        node = Program()
        for item in _documented(items):
            if isinstance(item, Namespace):
                node.namespaces.append(item)
            elif not isinstance(item, UsesDecl):
                _collect(node, item)
        if items:
            node.location = self.span(items)
        return node


def _documented(items: Children) -> Iterable[Declaration | Namespace | UsesDecl]:
    """The declarations, each with the doc comment that stands before it."""
    comment: Token | None = None
    for item in items:
        if isinstance(item, Token):
            comment = item
            continue
        if comment is not None and not isinstance(item, ImplicitDecl | UsesDecl):
            item.doc = parse_doc(comment.value)
        comment = None
        yield item


def _collect(owner: Namespace | Program, item: Declaration) -> None:
    match item:
        case FacetDecl():
            owner.facets.append(item)
        case EventFacetDecl():
            owner.event_facets.append(item)
        case WorkflowDecl():
            owner.workflows.append(item)
        case ImplicitDecl():
            owner.implicits.append(item)
        case SchemaDecl():
            owner.schemas.append(item)
