"""A commit that is under way while its session goes on: what it writes, and how to wait for its end.

From a launch to its landing a session's memory is ahead of the store. Whatever it asks the store for meanwhile could be
older than what it has in memory; so whoever asks waits for the landing first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, cast

from afl.kernel.errors import AgentFlowError, FencedError, StoreError, StoreUnavailable
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.step import StepDefinition


class Flight:
    """One commit; `steps` are those that it writes."""

    def __init__(self, land: Callable[[], None], steps: list[StepDefinition]) -> None:
        self._land: Callable[[], None] | None = land
        self._problem: Exception | None = None
        self.steps = steps
        self.begun = time.monotonic()

    def land(self) -> None:
        """Wait until it is stored. What kept it from that is raised to everybody who asks."""
        land, self._land = self._land, None
        if land is None:
            if self._problem is not None:
                raise self._problem
            return
        try:
            self._problem = StoreUnavailable(
                "nobody waited for the end of a commit; it may or may not be stored"
            )
            land()
            self._problem = None
        except Exception as error:
            self._problem = error
            raise


class Ground:
    """The store of a session: every use of it waits for the session's flight."""

    def __init__(self, store: PersistenceAPI) -> None:
        self._store = store
        self.flight: Flight | None = None

    def __getattr__(self, name: str) -> Any:
        self.land()
        return getattr(self._store, name)

    def land(self) -> None:
        """Whoever asks is about to do something else: a refusal ends that, and is nobody's failure."""
        try:
            if self.flight is not None:
                self.flight.land()
        except StoreError:
            raise
        except AgentFlowError as error:
            raise FencedError(f"what was launched came to nothing: {error}") from error

    @property
    def api(self) -> PersistenceAPI:
        """As what it is to those who use it."""
        return cast(PersistenceAPI, self)
