"""The names that tools of an agent may have: those that all providers accept, and that no built-in tool has."""

from __future__ import annotations

import re

from afl.kernel.errors import InputError
from afl.turns.orchestration.requests import KINDS
from afl.turns.tools.submit import SUBMIT_RESULT

LONGEST_NAME = 64
NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")
BUILT_IN = frozenset({*KINDS, SUBMIT_RESULT})


def check_tool_name(name: str) -> str:
    """The name; InputError for one that a tool cannot have."""
    advice = 'give it another: tool(..., name="...")'
    if name in BUILT_IN:
        raise InputError(f"tool {name!r}: a built-in tool has this name; {advice}")
    if not name or len(name) > LONGEST_NAME or NOT_IN_A_NAME.search(name):
        raise InputError(
            f"tool {name!r}: expected a name of up to {LONGEST_NAME} letters, digits, _ and -; {advice}"
        )
    return name
