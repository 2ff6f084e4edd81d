"""Runs that cannot be evaluated at present, and must not keep the others from it."""

from __future__ import annotations

import time

_SECONDS = 10.0


class PutOffRuns:
    """Each is left alone for a while, and then tried again."""

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def add(self, workflow_id: str) -> None:
        """Leave a run alone from now on."""
        self._until[workflow_id] = time.monotonic() + _SECONDS

    def __len__(self) -> int:
        return len(self._until)

    def without(self, workflow_ids: list[str]) -> list[str]:
        """Those of these runs that may be tried."""
        return [run for run in workflow_ids if run not in self._until]

    def forget_old(self) -> None:
        """Those whose time is over may be tried again."""
        now = time.monotonic()
        self._until = {run: until for run, until in self._until.items() if until > now}
