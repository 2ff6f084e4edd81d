"""A function of the user on a thread, from asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from afl.kernel.unraisable import failing

P = ParamSpec("P")
T = TypeVar("T")


async def to_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`asyncio.to_thread` for a function that may raise what no future can deliver."""
    return await asyncio.to_thread(failing(function), *args, **kwargs)
