"""Node for tests: the one that Playwright brings along, so that nothing else has to be installed."""

from __future__ import annotations

from pathlib import Path

import playwright


def node() -> str:
    """Its path."""
    found = Path(playwright.__file__).parent / "driver" / "node"
    assert found.is_file(), f"Playwright has no Node at {found}; install the extra dev"
    return str(found)
