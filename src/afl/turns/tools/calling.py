"""Calling Python tools from the worker's loop: async ones in it, sync ones on threads, each with its time."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from afl.kernel import telemetry
from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.kernel.unraisable import UnraisableError, as_failure, failing
from afl.turns.tools.local import LocalTool, ToolCall, enter_call
from afl.turns.tools.outcome import Outcome, failed, outcome_of

_log = logging.getLogger("afl.turns")
THREADS = 32


class Caller:
    """Calls tools. Its threads are its own, so that slow tools do not hold up the loop's other work."""

    def __init__(self, threads: int = THREADS) -> None:
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="afl-tool")

    async def call(
        self, tool: LocalTool, call: ToolCall, arguments: Mapping[str, Any], *, within: str = ""
    ) -> Outcome:
        """What came of it. A tool never raises into a turn: what it raises is its answer.

        `within` is the traceparent of a caller in another process.
        """
        try:
            given = tool.python.arguments(arguments)
        except InputError as error:
            return failed("invalid_arguments", str(error))
        begun = time.monotonic()
        try:
            span = telemetry.span("afl.tool", within, tool=tool.name, call=call.tool_call_id)
            async with asyncio.timeout(tool.timeout):
                with span:
                    answer = await self._answer(tool, call, given)
        except TimeoutError:
            return failed(
                "tool_timeout", f"{tool.name} was not done after {tool.timeout:g} s", status="timeout"
            )
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.info("tool %s failed", tool.name, exc_info=True)
            raised = error.raised if isinstance(error, UnraisableError) else error
            return failed(type(raised).__name__, error_text(str(raised) or type(raised).__name__))
        finally:
            telemetry.record("afl.tool.seconds", time.monotonic() - begun, tool=tool.name)
        return outcome_of(answer, tool=tool.name, after_execution=tool.after_execution)

    async def _answer(self, tool: LocalTool, call: ToolCall, given: dict[str, Any]) -> Any:
        context = contextvars.copy_context()
        context.run(enter_call, call)
        function = tool.python.function
        if inspect.iscoroutinefunction(function):
            return await asyncio.create_task(_awaited(function(**given)), context=context)
        loop = asyncio.get_running_loop()
        on_thread = failing(lambda: context.run(lambda: function(**given)))
        answer = await loop.run_in_executor(self._threads, on_thread)
        return await _awaited(answer) if inspect.isawaitable(answer) else answer

    def close(self) -> None:
        """Take no more calls. A call that hangs is left alone: a thread cannot be ended from outside."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _awaited(answer: Awaitable[Any]) -> Any:
    """What a coroutine gave. A GeneratorExit of its own is caught here: raised into a task, it ends all who wait."""
    try:
        return await answer
    except GeneratorExit as error:
        raise as_failure(error)  # noqa: B904  # it knows its cause
