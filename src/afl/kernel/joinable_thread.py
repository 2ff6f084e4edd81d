"""A thread that accompanies an object until that is closed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_BEGINNING_SECONDS = 1.0


class JoinableThread(threading.Thread):
    """A daemon thread that can always be joined.

    Ctrl-C may come while the main thread starts another one. Python then refuses to join it, though it runs, and
    a cleanup would end with an obscure error.
    """

    def __init__(self, target: Callable[..., object], name: str, *args: Any) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)
        self._begun = threading.Event()

    def run(self) -> None:
        """Do what it is for."""
        self._begun.set()
        super().run()

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end; one that was never started has ended."""
        patience = _BEGINNING_SECONDS if timeout is None else min(timeout, _BEGINNING_SECONDS)
        if self.is_alive() or self._begun.wait(patience):
            super().join(timeout)
