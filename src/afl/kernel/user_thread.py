"""A function of the user from asyncio: on a thread, or as a coroutine in a task of its own."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from afl.kernel.unraisable import as_failure, failing

P = ParamSpec("P")
T = TypeVar("T")


async def to_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """`asyncio.to_thread` for a function that may raise what no future can deliver."""
    return await asyncio.to_thread(failing(function), *args, **kwargs)


async def awaited(answer: Awaitable[T], context: contextvars.Context | None = None) -> T:
    """The result of an awaitable. Whatever it raises is a failure of it, and so is a cancellation that its caller did
    not ask for, as that of a task that it waits for: the caller would end, or wait forever.
    """
    task = asyncio.create_task(_failing(answer), context=context)
    try:
        return await task
    except asyncio.CancelledError as error:
        caller = asyncio.current_task()
        if caller is None or caller.cancelling():
            raise
        raise as_failure(error)  # noqa: B904  # it knows its cause


async def _failing(answer: Awaitable[T]) -> T:
    try:
        return await answer
    except (GeneratorExit, SystemExit) as error:  # not KeyboardInterrupt: a person ends the process
        raise as_failure(error)  # noqa: B904  # it knows its cause


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
