"""What a docstring says of a function and of its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ENTRY = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[\w\[\], .|]+\s+)?(\w+):\s*(.*)$")
_OTHER_FIELD = re.compile(r"^\s*:\w+[^:]*:")


def described(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description, and those of the parameters: `Args:` with `name: text` below it, or `:param name: text`."""
    words: list[str] = []
    parameters: dict[str, str] = {}
    section, current = "", ""
    for line in (inspect.getdoc(function) or "").splitlines():
        heading, field = _SECTION.match(line), _FIELD.match(line)
        if heading:
            section, current = heading[1], ""
        elif field:
            section, current = "Args", field[1]
            parameters[current] = field[2]
        elif section in ("Args", "Arguments", "Parameters") and not _OTHER_FIELD.match(line):
            current = _read_parameter(line, current, parameters)
        elif _OTHER_FIELD.match(line):
            section = "field"
        elif not section:
            words.append(line)
    return "\n".join(words).strip(), {name: text.strip() for name, text in parameters.items()}


def _read_parameter(line: str, current: str, parameters: dict[str, str]) -> str:
    """Take in one line of the parameters; the name of the parameter it belongs to."""
    entry = _ENTRY.match(line)
    if entry:
        parameters[entry[1]] = entry[2]
        return entry[1]
    if current and line.strip():
        parameters[current] += f" {line.strip()}"
    return current
