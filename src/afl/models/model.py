"""A model, seen from those who use it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from afl.kernel.unraisable import to_thread
from afl.models.messages import Reply, Request

OnText = Callable[[str], None]


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests. Safe to be called by several threads at once."""

    @property
    def name(self) -> str:
        """The model that answers a request which names none."""

    def resolve(self, name: str) -> str:
        """The full name of what a request calls `name`; empty: this one's own."""

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The reply. `on_text` is given its words while they come. ModelError if there will be none."""


async def complete_async(model: Model, request: Request, on_text: OnText | None = None) -> Reply:
    """`complete` for asyncio, on a thread of its own; `on_text` is called in the loop.

    Whoever is cancelled here leaves at once; the call itself ends unheard.
    """
    loop = asyncio.get_running_loop()

    def relay(text: str) -> None:
        assert on_text is not None
        loop.call_soon_threadsafe(on_text, text)

    return await to_thread(model.complete, request, None if on_text is None else relay)
