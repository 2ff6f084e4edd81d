"""A function of the user on a thread, from asyncio."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from afl.kernel.unraisable import failing

P = ParamSpec("P")
T = TypeVar("T")


async def to_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`asyncio.to_thread` for a function that may raise what no future can deliver."""
    return await asyncio.to_thread(failing(function), *args, **kwargs)


async def result_of(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    named: Mapping[str, Any] | None = None,
    threads: Executor | None = None,
) -> Any:
    """The result of a coroutine function, of a function that returns an awaitable, or of a plain one on a thread."""
    call = partial(function, *args, **(named or {}))
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        return await call()
    context = contextvars.copy_context()
    loop = asyncio.get_running_loop()
    result = await loop.run_in_executor(threads, context.run, failing(call))
    return await result if inspect.isawaitable(result) else result
