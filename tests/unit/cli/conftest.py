"""The command line in this process, and sources for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import afl

__all__ = ["afl", "agents", "doubling"]

DOUBLING = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Twice(n: Long, label: String = "x") => (m: Long, label: String) andThen {
        a = Double(n = $.n)
        b = Double(n = a.m)
        yield Twice(m = b.m, label = $.label)
    }
}
"""
AGENTS = """from afl import handler

@handler("t.Double")
def double(n):
    if n == 13:
        raise ValueError("thirteen is not doubled")
    if n == 14:
        return {"m": "fourteen"}
    return {"m": n * 2}
"""


@pytest.fixture
def doubling(tmp_path: Path) -> str:
    """A workflow of two event steps."""
    (tmp_path / "doubling.afl").write_text(DOUBLING)
    return "doubling.afl"


@pytest.fixture
def agents(tmp_path: Path) -> str:
    """Its agents."""
    (tmp_path / "doubling_agents.py").write_text(AGENTS)
    return "doubling_agents.py"
