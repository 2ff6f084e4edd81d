"""What every AST node has: an id made on demand and the place it came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import overload

from afl.kernel.ids import random_id


@dataclass(slots=True)
class SourceLocation:
    """Where a node stands: 1-based lines and columns, the end column exclusive."""

    line: int
    column: int
    end_line: int | None = None
    end_column: int | None = None
    source_id: str | None = None


class _NodeId:
    """A random id made when first asked for: a large program has many nodes and few readers of ids."""

    @overload
    def __get__(self, node: None, owner: type) -> str: ...
    @overload
    def __get__(self, node: ASTNode, owner: type) -> str: ...
    def __get__(self, node: ASTNode | None, owner: type) -> str:
        if node is None:
            return ""
        created: str | None = node.__dict__.get("_node_id")
        return created if created is not None else self._create(node)

    def __set__(self, node: ASTNode, value: str | _NodeId) -> None:
        # A constructor without the argument hands over the field's default, which is this object.
        if isinstance(value, str):
            node.__dict__["_node_id"] = value

    @staticmethod
    def _create(node: ASTNode) -> str:
        created = random_id()
        node.__dict__["_node_id"] = created
        return created


@dataclass(kw_only=True)
class ASTNode:
    """Base of all nodes."""

    node_id: _NodeId = field(default=_NodeId(), compare=False, repr=False)
    location: SourceLocation | None = field(default=None, compare=False, repr=False)
