"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

P = ParamSpec("P")


def in_event_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in an event loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run
