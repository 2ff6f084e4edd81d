"""A statement with its parameters, to be run together with others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from afl.kernel.database.queries import Query

FEW = 12  # with more of one kind a single statement for many rows is quicker


class Statement(NamedTuple):
    """`params` are in the order of the query's parameters. One that `must_hit` a row and does not undoes them all."""

    query: Query
    params: tuple[Any, ...]
    must_hit: bool = False

    @classmethod
    def of(cls, query: Query, params: Mapping[str, Any], *, must_hit: bool = False) -> Statement:
        """With those of the named parameters that the query has."""
        return cls(query, tuple([params[name] for name in query.parameters]), must_hit)

    @property
    def named(self) -> dict[str, Any]:
        """The parameters by their names."""
        return dict(zip(self.query.parameters, self.params, strict=True))
