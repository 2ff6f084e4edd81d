"""Every operation in one table: what it is called, who may do it, and where the HTTP API has it.

The API's routes, the tools of MCP, the client of `--server` and the audit log are all made from it. A function is named
by module and name and imported when it is called, so that whoever lists runs does not pay for Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from afl.operations.catalogue_rows import OPERATIONS
from afl.operations.operation import Needs, Operation

__all__ = [
    "API",
    "NOTHING",
    "OPERATIONS",
    "PUBLIC",
    "Needs",
    "Operation",
    "by_target",
    "named",
    "operation_of",
    "render_markdown",
]

API = "/api/v1"
NOTHING = "-"
"""What stands in a path for an empty name: of most things, the latest."""
PUBLIC = tuple(each for each in OPERATIONS if each.path)
"""Those that the HTTP API has."""


@cache
def by_target() -> dict[str, Operation]:
    """The table by function."""
    return {f"afl.operations.{each.target}": each for each in OPERATIONS}


def operation_of(function: Callable[..., Any]) -> Operation:
    """The row of a function; KeyError for one that is not in the table."""
    return by_target()[f"{function.__module__}:{function.__qualname__}"]


def named(name: str) -> Operation:
    """The row of a name; StopIteration for one that is not in the table."""
    return next(each for each in OPERATIONS if each.name == name)


def render_markdown() -> str:
    """The table of docs/http-api.md."""
    lines = ["| request | role | what it does | operation |", "|---|---|---|---|"]
    lines += [
        f"| `{each.method} {each.path}` | {each.role} | {each.summary} | `{each.name}` |" for each in PUBLIC
    ]
    return "\n".join(lines) + "\n"
