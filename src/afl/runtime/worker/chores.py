"""What a worker does at every poll beside its work."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from afl.kernel.errors import AgentFlowError, StoreError

_log = logging.getLogger(__name__)

_PATIENCE_SECONDS = 1.0  # how long they wait while there is more to claim


class Chores:
    """`those` gives what there is to do. It waits while the worker is busy, but not for good."""

    def __init__(self, those: Callable[[], Sequence[Callable[[], object]]]) -> None:
        self._those = those
        self._since: float | None = None  # when they fell due

    def fall_due(self, now: float) -> None:
        """There is something to do."""
        if self._since is None:
            self._since = now

    def do(self, now: float, *, busy: bool) -> None:
        """Do it, if it is time. One that fails keeps nobody from the others, unless it is the store that fails."""
        if self._since is None or (busy and now < self._since + _PATIENCE_SECONDS):
            return
        self._since = None
        for chore in self._those():
            try:
                chore()
            except StoreError:
                raise
            except AgentFlowError as error:
                _log.warning("%s failed: %s", getattr(chore, "__name__", "a chore"), error)
            except Exception:  # no reason to end, with all that is in hand
                _log.exception("%s failed", getattr(chore, "__name__", "a chore"))
