"""Properties of the runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afl.runtime.stores.sql_store import tasks


@pytest.fixture(scope="module", autouse=True)
def _no_patience() -> Iterator[None]:
    """Runs that are left behind have tasks whose turn it is by a rate: others need not wait five seconds for theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "RATE_PATIENCE_MS", 1)
        yield
