"""Tools that are Python functions of this process, sync or async.

def weather(city: str) -> str:
    "The weather in a city."
    return "sunny"

toolbox = Toolbox([weather, local_tool(book, timeout=60)])
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from copy import copy
from dataclasses import dataclass
from typing import Any

from afl.kernel import telemetry
from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name
from afl.kernel.unraisable import failing, raised_in
from afl.kernel.user_thread import awaited
from afl.models import PythonTool, Tool, tool_from
from afl.models.result_type import ResultType, result_type
from afl.turns.content.answered import kept_outcome
from afl.turns.content.given import parts_answered
from afl.turns.content.keeper import ContentKeeper
from afl.turns.errors import ContentUnavailable
from afl.turns.guardrails import CheckBox
from afl.turns.mcp.server import McpServers
from afl.turns.served.agent import ServedAgent
from afl.turns.tools.approval import ApprovalRule, Approve, Expired, approval_rule
from afl.turns.tools.dependencies import AgentContext, Dependencies, context_var, with_context
from afl.turns.tools.outcome import AFTER_EXECUTION, SUSPEND, Outcome, ToolFailure, failed, outcome_of
from afl.turns.tools.tool_names import check_tool_name

TOOL_SECONDS = 120.0
THREADS = 32
_log = logging.getLogger("afl.turns")


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The call a tool is answering. `idempotency_key` is the same however often the call has to be made again."""

    tool_call_id: str
    tool_name: str
    project_id: str
    agent_id: str
    agent_turn_id: str

    @property
    def idempotency_key(self) -> str:
        return f"{self.project_id}/{self.tool_call_id}"


_call: ContextVar[ToolCall] = ContextVar("afl_turns_tool_call")


def current_call() -> ToolCall:
    """The call under way; for the function of a tool, while it is called by a worker."""
    try:
        return _call.get()
    except LookupError:
        raise InputError("current_call() is for the function of a tool while a worker calls it") from None


@contextmanager
def calling(call: ToolCall) -> Iterator[None]:
    """While the block lasts, `current_call()` is this call."""
    token = _call.set(call)
    try:
        yield
    finally:
        _call.reset(token)


@dataclass(frozen=True)
class LocalTool:
    """A function with what the protocol wants to know of a tool."""

    python: PythonTool
    after_execution: str = SUSPEND
    timeout: float = TOOL_SECONDS
    approval: ApprovalRule | None = None  # which calls a person must approve

    @property
    def name(self) -> str:
        return self.python.name

    @property
    def tool(self) -> Tool:
        """As the model sees it."""
        return self.python.tool

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself, for other code and for tests."""
        return self.python.function(*args, **kwargs)


def local_tool(
    function: Callable[..., Any] | PythonTool | LocalTool,
    *,
    name: str = "",
    after_execution: str | None = None,
    timeout: float | None = None,
    approve: Approve | None = None,
    approve_timeout: float | None = None,
    approve_expired: Expired | None = None,
) -> LocalTool:
    """The tool a function is. `after_execution="terminate"`: its answer is the turn's deliverable.

    `timeout`: seconds for one call, 120 by default.
    `approve`: a person is asked before it is called: True, the name of the group that is asked, or a function of the
    arguments that returns one of these. Nobody answers in `approve_timeout` seconds: `approve_expired` says whether the
    model is told so (reject, the default) or the turn fails (fail).
    Of what is a tool already there is a copy with the options that are given, and its own for the others.
    """
    if isinstance(function, LocalTool):
        known = function
    else:
        called = function if isinstance(function, PythonTool) else with_context(function)
        known = LocalTool(tool_from(called, name=name))
    python = tool_from(known.python, name=name)
    check_tool_name(python.name)
    after = known.after_execution if after_execution is None else after_execution
    if after not in AFTER_EXECUTION:
        raise InputError(f"after_execution is {after!r}; expected suspend or terminate")
    seconds = known.timeout if timeout is None else timeout
    if not seconds > 0:
        raise InputError(f"the timeout of a tool is {seconds!r}; expected seconds, more than 0")
    rule = known.approval or ApprovalRule(False)
    asks = approval_rule(
        rule.approve if approve is None else approve,
        rule.seconds if approve_timeout is None else approve_timeout,
        rule.expired if approve_expired is None else approve_expired,
    )
    changed = LocalTool(python, after, seconds, asks)
    return known if changed == known else changed


class Toolbox:
    """The tools of one process by their names, and the types of results that it knows."""

    def __init__(self, tools: Iterable[Callable[..., Any] | PythonTool | LocalTool] = ()) -> None:
        self._tools: dict[str, LocalTool] = {}
        self._of_agents: dict[str, dict[str, LocalTool]] = {}  # those that an agent lists, by their names
        self.checks = CheckBox()  # the guardrails of the agents of this process
        self.result_types: dict[str, ResultType[Any]] = {}  # of the agents of this process, by their keys
        self.prompts: dict[str, Callable[..., Any]] = {}  # functions that make prompts, by agent
        self.mcp = McpServers()
        self.served: dict[str, ServedAgent] = {}  # agents of Pydantic AI, by the ids of agents
        for each in tools:
            self.add(each)

    def add_type(self, result: Any) -> ResultType[Any]:
        """One more type of results; turns that are asked for it are checked by it."""
        found = result_type(result)
        return self.result_types.setdefault(found.key, found) if found.kind is not None else found

    def add(self, function: Callable[..., Any] | PythonTool | LocalTool) -> LocalTool:
        """One more, for agents that only name it; InputError when another function has its name.

        If it is given more than once, one that a person must approve stays.
        """
        tool = local_tool(function)
        known = self._tools.setdefault(tool.name, tool)
        if inspect.unwrap(known.python.function) is not inspect.unwrap(tool.python.function):
            raise InputError(f"two tools have the name {tool.name!r}; give one of them another: name=...")
        if known.approval is None and tool.approval is not None:
            self._tools[tool.name] = tool
        return self._tools[tool.name]

    def set_tools(self, agent: str, tools: Iterable[LocalTool]) -> None:
        """The tools that an agent lists itself: it has them with the options that it gives them."""
        own: dict[str, LocalTool] = {}
        for each in tools:
            self.add(each)
            if own.setdefault(each.name, each) != each:
                raise InputError(
                    f"agent {agent}: two tools have the name {each.name!r}; give one of them another: name=..."
                )
        self._of_agents[agent] = own

    def with_tools(self, tools: Iterable[LocalTool]) -> Toolbox:
        """These and others; the tools that are here keep their names."""
        both = copy(self)
        both._tools = {**self._tools, **{tool.name: tool for tool in tools if tool.name not in self._tools}}
        return both

    def find(self, name: str, agent: str = "") -> LocalTool | None:
        """The tool of that name as an agent has it."""
        return self._of_agents.get(agent, {}).get(name) or self._tools.get(name)

    def __iter__(self) -> Iterator[LocalTool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)


def near(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known."""
    names = sorted(known)
    close = near_name(name, names)
    return f"did you mean {close}?" if close else f"known are: {', '.join(names) or 'none'}"


class ToolCaller:
    """Calls tools: coroutine functions in the event loop, others on threads of its own, each with its timeout.

    The time of a call begins when it has a thread. One that is not done in time keeps its thread until it returns.
    """

    def __init__(
        self,
        threads: int = THREADS,
        deps: Dependencies | None = None,
        content: ContentKeeper | None = None,
    ) -> None:
        self._content = content
        self._deps = deps or Dependencies()
        self._most = threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="afl-tool")
        self._under_way: set[Future[Any]] = set()
        self._given_up: dict[Future[Any], str] = {}  # calls that nobody awaits, with the names of their tools
        self._warned = False

    async def call(
        self, tool: LocalTool, call: ToolCall, arguments: Mapping[str, Any], *, within: str = ""
    ) -> Outcome:
        """The outcome. A tool never raises into a turn: what it raises is a failed outcome.

        `within` is the traceparent of a caller in another process.
        """
        try:
            given = tool.python.arguments(arguments)
        except InputError as error:
            return failed("invalid_arguments", str(error))
        begun = time.monotonic()
        try:
            span = telemetry.span("afl.tool", within, tool=tool.name, call=call.tool_call_id)
            with span:
                answer = await self._answer(tool, call, given)
        except _TimeIsUpError:
            return failed(
                "tool_timeout", f"{tool.name} was not done after {tool.timeout:g} s", status="timeout"
            )
        except asyncio.CancelledError:
            raise
        except Exception as error:
            _log.info("tool %s failed", tool.name, exc_info=True)
            raised = raised_in(error)
            code = raised.code if isinstance(raised, ToolFailure) else type(raised).__name__
            return failed(code, error_text(raised))
        finally:
            telemetry.record("afl.tool.seconds", time.monotonic() - begun, tool=tool.name)
        try:
            parts = None if self._content is None else parts_answered(answer)
            if parts is None or self._content is None:
                return outcome_of(answer, tool=tool.name, after_execution=tool.after_execution)
            return await kept_outcome(self._content, call.project_id, parts, tool.after_execution)
        except (InputError, ContentUnavailable) as error:
            return failed(error.code, str(error), after_execution=tool.after_execution)

    async def _answer(self, tool: LocalTool, call: ToolCall, given: dict[str, Any]) -> Any:
        context = copy_context()
        context.run(_call.set, call)
        about = (call.project_id, call.agent_id, call.agent_turn_id, call.tool_call_id)
        context.run(context_var.set, AgentContext(self._deps.value, *about))
        function = tool.python.function
        if inspect.iscoroutinefunction(function):
            return await _in_time(tool, awaited(function(**given), context))
        return await self._on_thread(tool, lambda: function(**given), context)

    async def _on_thread(self, tool: LocalTool, function: Callable[[], Any], context: Context) -> Any:
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def work() -> Any:
            loop.call_soon_threadsafe(begun.set)
            return context.run(failing(function))

        async def outcome() -> Any:
            answer = await answered
            return await awaited(answer, context) if inspect.isawaitable(answer) else answer

        if len(self._under_way) >= self._most:
            self._warn()
        job = self._threads.submit(work)
        self._under_way.add(job)
        job.add_done_callback(self._done)
        answered = asyncio.wrap_future(job)
        answered.add_done_callback(lambda _: begun.set())  # `close` cancels a call that has no thread yet
        try:
            await begun.wait()
            return await _in_time(tool, outcome())
        finally:
            job.cancel()
            answered.cancel()
            if not job.done():
                self._given_up[job] = tool.name
                job.add_done_callback(self._done)  # it may have returned since

    def _done(self, job: Future[Any]) -> None:
        self._under_way.discard(job)
        self._given_up.pop(job, None)

    def _warn(self) -> None:
        """Say once that calls wait for threads of calls that were given up."""
        given_up = list(self._given_up.values())
        if given_up and not self._warned:
            self._warned = True
            _log.warning(
                "calls of tools wait: %d of %d threads have calls that timed out or were canceled and still run: %s",
                len(given_up),
                self._most,
                ", ".join(sorted(set(given_up))),
            )

    def close(self) -> None:
        """Take no more calls. A call that hangs is abandoned: a thread cannot be ended from outside."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _TimeIsUpError(Exception):
    """A call was not done in the time of its tool. A TimeoutError is what the tool raised itself."""


async def _in_time(tool: LocalTool, answer: Awaitable[Any]) -> Any:
    try:
        async with asyncio.timeout(tool.timeout) as limit:
            return await answer
    except TimeoutError as error:
        if limit.expired():
            raise _TimeIsUpError from error
        raise
