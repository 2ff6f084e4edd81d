"""docs/reference-errors.md: every error that AgentFlow raises on purpose, from the classes themselves."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import afl
from afl.kernel.errors import AgentFlowError
from reference.tables import table

_TITLES = {
    "kernel": "Everywhere",
    "language": "The language",
    "models": "Models",
    "runtime": "The runtime",
    "turns": "Turns",
    "fleet": "The fleet",
    "coordination": "Coordination",
    "bridges": "Bridges",
    "operations": "Operations and the command line",
    "dashboard": "Dashboard and HTTP API",
    "mcp": "MCP",
}


def render() -> str:
    """The whole page."""
    found = all_errors()
    exported = ", ".join(f"`{name}`" for name in sorted({each.__name__ for each in found} & {*afl.__all__}))
    lines = [
        "# Errors",
        "",
        "Generated from the classes by `make docs`; do not edit this page by hand.",
        "",
        "Every error that AgentFlow raises on purpose derives from `afl.AgentFlowError`. Its text is written for a",
        "person: what was wrong, where, and what was expected. `code` names the kind for programs, the same in",
        "Python (`error.code`) and in the answers of the HTTP API; `hint` says what to do. The command line",
        "prints the text to standard error and exits with 1, or with 2 for wrong usage; `AFL_DEBUG=1` shows the",
        "traceback instead. Any other exception is a bug: please report it.",
        "",
        f"`afl` exports {exported}.",
        "",
    ]
    for part, title in _TITLES.items():
        mine = [each for each in found if each.__module__.split(".")[1] == part]
        if mine:
            rows = [
                [f"`{each.__name__}`", f"`{each.code}`", _parents(each), _when(each), each.hint]
                for each in mine
            ]
            lines += [f"## {title}", "", *table(["error", "code", "is a", "when", "what to do"], rows), ""]
    return "\n".join(lines).rstrip() + "\n"


def all_errors() -> list[type[AgentFlowError]]:
    """The tree from the base on, a base before those below it; every module is imported to see all of them."""
    for module in pkgutil.walk_packages(afl.__path__, "afl."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return list(dict.fromkeys(_below(AgentFlowError)))


def _below(error: type[AgentFlowError]) -> Iterator[type[AgentFlowError]]:
    yield error
    # In the order of their names: that of the imports depends on who came first.
    for each in sorted(error.__subclasses__(), key=lambda found: (found.__module__, found.__name__)):
        if each.__module__.startswith("afl."):
            yield from _below(each)


def _parents(error: type[AgentFlowError]) -> str:
    return ", ".join(f"`{base.__name__}`" for base in error.__bases__)


def _when(error: type[AgentFlowError]) -> str:
    return (inspect.getdoc(error) or "").partition("\n\n")[0]
