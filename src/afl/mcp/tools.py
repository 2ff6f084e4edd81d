"""The tools: most are operations of the catalog; those that compile, start and wait are written here.

A tool has typed parameters, structured output with its schema, and the product's own errors.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Annotated, Any, get_type_hints

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.server.mcpserver.utilities.func_metadata import ArgModelBase, FuncMetadata, func_metadata
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import ConfigDict, Field, create_model

from afl.kernel.control_characters import escaped_json, visible_controls
from afl.kernel.errors import AgentFlowError, InputError
from afl.mcp.clients import RequestClient
from afl.operations import serialization
from afl.operations.catalog import named
from afl.operations.operation import Operation
from afl.operations.problems import problem_of
from afl.operations.program import sources, submission
from afl.operations.run import waiting

ToolFunction = Callable[..., Awaitable[Any]]
_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=Context[Any, Any])
_POLL_SECONDS = 2.0  # how often a caller that waits gets a progress notification

LOOKS = ToolAnnotations(read_only_hint=True, open_world_hint=False)
ADDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True
)
CHANGES = ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=True
)
ENDS = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)
_OPERATIONS = {
    **dict.fromkeys(
        ("list_runs", "count_states", "show_run", "show_step", "read_log", "query_run", "why"), LOOKS
    ),
    **dict.fromkeys(("list_workflows", "show_workflow", "list_flows", "show_flow"), LOOKS),
    **dict.fromkeys(("list_tasks", "list_servers", "list_approvals", "show_approval"), LOOKS),
    **dict.fromkeys(("list_sessions", "show_session", "show_turn", "wait_for_turn"), LOOKS),
    **dict.fromkeys(("list_signals", "compare_runs", "preview_bulk"), LOOKS),
    **dict.fromkeys(("publish_workflows", "continue_step", "retry", "pause_run", "unpause_run"), CHANGES),
    **dict.fromkeys(("cancel_run", "bulk_runs", "reject_approval"), ENDS),
    **dict.fromkeys(("answer_approval", "send_signal", "rerun", "fork", "send_to_session"), ADDS),
}
_NOTES = dict.fromkeys(("answer_approval", "reject_approval"), "\n\nOnly if a person told you to.")
_LEFT_OUT = {"files"}  # no model writes base64
_DEFAULTS = {
    ("show_flow", "with_program"): False,
    ("read_log", "limit"): 200,
    ("wait_for_turn", "timeout"): 30,
}

Name = Annotated[str, Field(description="What the messages call the source.")]
Source = Annotated[str, Field(description="The text of a program in AFL.")]
Seconds = Annotated[float, Field(ge=0, le=3_600, description="How long to wait for its end; 0: not at all.")]


@dataclass(frozen=True)
class RunState:
    """Where a run stands. `over` says whether it ended; then `outputs` or `error` tell how."""

    run: str
    workflow: str
    state: str
    over: bool
    outputs: dict[str, Any] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    reason: str = ""
    duration_ms: int = 0


def all_tools(client: RequestClient) -> list[Tool]:
    """Every tool of the server."""
    own = _OwnTools(client)
    return [
        make_tool(own.run, "Run a workflow", ADDS),
        make_tool(own.wait_for_run, "Wait for a run", LOOKS),
        make_tool(own.validate, "Look for mistakes in a source", LOOKS),
        make_tool(own.compile, "Compile a source", LOOKS),
        *(operation_tool(client, named(name), kind) for name, kind in _OPERATIONS.items()),
    ]


class _OwnTools:
    """Each method is a tool; its docstring is the description that a model reads."""

    def __init__(self, client: RequestClient) -> None:
        self._call = client.call

    async def run(
        self,
        context: Context[Any, Any],
        workflow: Annotated[
            str,
            Field(
                description="The workflow's full name, such as news.MorningPage; may be left out with a source of one."
            ),
        ] = "",
        source: Annotated[
            str,
            Field(
                description="AFL source to compile. Without it, a workflow that the store knows is started by its name."
            ),
        ] = "",
        inputs: Annotated[
            dict[str, Any] | None, Field(description="The workflow's parameters by name.")
        ] = None,
        wait_seconds: Seconds = 0,
        task_list: Annotated[
            str, Field(description="The task list whose servers are to do its work.")
        ] = "default",
        budget_usd: Annotated[
            float | None, Field(ge=0, description="What its models may cost, in US dollars.")
        ] = None,
        idempotency_key: Annotated[
            str,
            Field(description="The same key again is the same run, as long as it is kept: safe to repeat."),
        ] = "",
    ) -> RunState:
        """Start a run of a workflow, and wait for its end if asked to.

        The run is stored durably and goes on whatever becomes of this connection. Its event facets are done by agents
        that serve the task list; if none is there the run waits, and the tool `why` says for whom. Give either a
        source or the name of a workflow that `list_workflows` shows.
        """
        if not source and not workflow:
            raise InputError("give a source, or the name of a workflow that list_workflows shows")
        options: dict[str, Any] = {"task_list": task_list, "budget_usd": budget_usd, "key": idempotency_key}
        if source:
            begun = await self._call(context, submission.submit_source, source, workflow, inputs, **options)
        else:
            begun = await self._call(context, submission.start_workflow, workflow, inputs, **options)
        return await self._ended(context, begun.run, wait_seconds)

    async def wait_for_run(
        self,
        context: Context[Any, Any],
        run: Annotated[str, Field(description="The run's id, or a prefix of it.")],
        wait_seconds: Seconds = 30,
    ) -> RunState:
        """Wait until a run is over, or the time is; `over` tells which. Waiting changes nothing about the run."""
        return await self._ended(context, run, wait_seconds)

    async def _ended(self, context: Context[Any, Any], run: str, seconds: float) -> RunState:
        begun = time.monotonic()
        while True:
            left = max(0.0, seconds - (time.monotonic() - begun))
            end = await self._call(context, waiting.wait_a_while, run, min(left, _POLL_SECONDS))
            if not end.timed_out or left <= _POLL_SECONDS:
                outcome = (end.outputs, end.error, end.reason, end.duration_ms)
                return RunState(end.run, end.workflow, end.state, not end.timed_out, *outcome)
            await context.report_progress(time.monotonic() - begun, seconds, f"run {end.run} is {end.state}")

    async def validate(
        self, context: Context[Any, Any], source: Source, name: Name = ""
    ) -> sources.Compilation:
        """Look for mistakes in a source without running or storing anything.

        `findings` have the line, the column and what to do; `workflows` is what could be started, with the types of
        its parameters and returns.
        """
        return await self._call(context, sources.compile_source, source, name=name)

    async def compile(
        self, context: Context[Any, Any], source: Source, name: Name = ""
    ) -> sources.Compilation:
        """Compile a source to the JSON that the runtime executes, as `program`; nothing is stored."""
        return await self._call(context, sources.compile_source, source, name=name, with_program=True)


def operation_tool(client: RequestClient, operation: Operation, kind: ToolAnnotations) -> Tool:
    """The tool of an operation: its docstring, its parameters with their bounds, its result."""

    async def call(*, context: Context[Any, Any], **given: Any) -> Any:
        return await client.call(context, operation.function, **given)

    told = [each for each in operation.parameters if each.name not in _LEFT_OUT]
    parameters = [_CONTEXT, *(_parameter(operation, each) for each in told)]
    call.__name__ = operation.name
    call.__doc__ = operation.description + _NOTES.get(operation.name, "")
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    hints = {each.name: each.annotation for each in parameters}
    call.__annotations__ = {**hints, "return": operation.hints["return"]}
    return make_tool(call, operation.summary, kind)


def _parameter(operation: Operation, own: inspect.Parameter) -> inspect.Parameter:
    kind, meta = operation.kind_of(own.name)
    bounds: dict[str, Any] = {"ge": meta.ge, "le": meta.le, "max_length": meta.max_length}
    about = Field(
        description=meta.description, **{name: each for name, each in bounds.items() if each is not None}
    )
    default = _DEFAULTS.get((operation.name, own.name), own.default)
    return own.replace(
        kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, about], default=default
    )


class _Exact(ArgModelBase):
    """Arguments of which none is ignored: a filter that is misspelled would be no filter."""

    model_config = ConfigDict(extra="forbid")


def make_tool(function: ToolFunction, title: str, kind: ToolAnnotations) -> Tool:
    """A tool of that name: its docstring is the description, its return type the schema of the output.

    What is no object is given as the field `result` of one.
    """
    returned = get_type_hints(function)["return"]
    found = func_metadata(function, skip_names=[_CONTEXT.name], structured_output=False).arg_model
    arguments = create_model(found.__name__, __base__=(_Exact, found))
    schema, wraps_result = _output_schema(returned)
    return Tool(
        fn=_answering(function, wraps_result),
        name=function.__name__,
        title=title,
        description=inspect.getdoc(function) or title,
        parameters=arguments.model_json_schema(by_alias=True),
        fn_metadata=FuncMetadata(arg_model=arguments, output_schema=schema),
        is_async=True,
        context_kwarg=_CONTEXT.name,
        annotations=kind,
    )


def _answering(function: ToolFunction, wraps_result: bool) -> ToolFunction:
    @wraps(function)
    async def answer(**given: Any) -> CallToolResult:
        try:
            found = serialization.plain(await function(**given))
        except AgentFlowError as error:
            raise ToolError(said(error)) from error
        shown = {"result": found} if wraps_result else found
        text = TextContent(type="text", text=json_text(shown))
        return CallToolResult(content=[text], structured_content=shown)

    return answer


def json_text(found: Any) -> str:
    """A result as a model reads it, and perhaps shows it to a person."""
    return escaped_json(serialization.encode(found).decode())


def said(error: AgentFlowError) -> str:
    """An error as a model reads it: what is wrong, and what helps."""
    problem = problem_of(error)
    return visible_controls(f"{problem.message}\n{problem.hint}" if problem.hint else problem.message)


def _output_schema(kind: Any) -> tuple[dict[str, Any], bool]:
    (found,), components = serialization.schemas([kind], reference="#/$defs/{name}")
    name = str(found.get("$ref", "")).rpartition("/")[2]
    whole = components[name] if name else found
    if whole.get("type") == "object":
        return {**whole, "$defs": components}, False
    return {
        "type": "object",
        "properties": {"result": found},
        "required": ["result"],
        "$defs": components,
    }, True
