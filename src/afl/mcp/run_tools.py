"""Tools for runs: start them, wait for them, look at them, help them on, end them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from afl.kernel.errors import InputError
from afl.mcp.clients import RequestClient
from afl.mcp.toolbox import ADDS, CHANGES, ENDS, LOOKS, tool
from afl.operations.program import submission
from afl.operations.reason.reasons import Reason
from afl.operations.reason.why import why as why_it_stands
from afl.operations.run import control, run_end, run_list, run_log, run_view, step_view

RunName = Annotated[str, Field(description="The run's id, or enough of its beginning.")]
Seconds = Annotated[float, Field(ge=0, le=3_600, description="How long to wait for its end; 0: not at all.")]
_SLICE = 2.0  # how often somebody who waits is told that it goes on


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


def run_tools(client: RequestClient) -> list[Tool]:
    """All of them."""
    work = _RunTools(client)
    return [
        tool(work.run, "Run a workflow", ADDS),
        tool(work.wait_for_run, "Wait for a run", LOOKS),
        tool(work.list_runs, "List runs", LOOKS),
        tool(work.show_run, "Show a run", LOOKS),
        tool(work.show_step, "Show a step", LOOKS),
        tool(work.read_log, "Read a run's log", LOOKS),
        tool(work.why, "Explain what does not move", LOOKS),
        tool(work.continue_step, "Give a step its result", CHANGES),
        tool(work.retry, "Retry failed steps", CHANGES),
        tool(work.pause_run, "Pause a run", CHANGES),
        tool(work.unpause_run, "Let a paused run go on", CHANGES),
        tool(work.cancel_run, "Cancel a run", ENDS),
    ]


class _RunTools:
    """Each method is a tool; its text is what a model reads."""

    def __init__(self, client: RequestClient) -> None:
        self._do = client.call

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
            str, Field(description="The same key again within a day is the same run: safe to repeat.")
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
            begun = await self._do(context, submission.submit_source, source, workflow, inputs, **options)
        else:
            begun = await self._do(context, submission.start_workflow, workflow, inputs, **options)
        return await self._ended(context, begun.run, wait_seconds)

    async def wait_for_run(
        self, context: Context[Any, Any], run: RunName, wait_seconds: Seconds = 30
    ) -> RunState:
        """Wait until a run is over, or the time is; `over` tells which. Waiting changes nothing about the run."""
        return await self._ended(context, run, wait_seconds)

    async def _ended(self, context: Context[Any, Any], run: str, seconds: float) -> RunState:
        begun = time.monotonic()
        while True:
            left = max(0.0, seconds - (time.monotonic() - begun))
            end = await self._do(context, run_end.wait_a_while, run, min(left, _SLICE))
            if not end.timed_out or left <= _SLICE:
                return RunState(
                    end.run,
                    end.workflow,
                    end.state,
                    not end.timed_out,
                    end.outputs,
                    end.error,
                    end.reason,
                    end.duration_ms,
                )
            await context.report_progress(time.monotonic() - begun, seconds, f"run {end.run} is {end.state}")

    async def list_runs(
        self,
        context: Context[Any, Any],
        state: Annotated[
            str, Field(description="created, running, paused, completed, failed or cancelled.")
        ] = "",
        workflow: Annotated[str, Field(description="The full name of a workflow.")] = "",
        text: Annotated[
            str, Field(description="Stands in a run's id, its workflow's name, its error or its reason.")
        ] = "",
        before: Annotated[str, Field(description="The `next` of the page before this one.")] = "",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> run_list.RunPage:
        """List runs, newest first, a page at a time. Times are milliseconds since 1970."""
        given: dict[str, Any] = {
            "state": state,
            "workflow": workflow,
            "text": text,
            "before": before,
            "limit": limit,
        }
        return await self._do(context, run_list.list_runs, **given)

    async def show_run(self, context: Context[Any, Any], run: RunName = "") -> run_view.RunView:
        """Show a run with its inputs, outputs, error and steps as a tree; without a name the latest run.

        The elements of a foreach are folded into one node with counts. `show_step` tells all about one step.
        """
        return await self._do(context, run_view.show_run, run)

    async def show_step(
        self,
        context: Context[Any, Any],
        step: Annotated[
            str,
            Field(
                description="The step's id: the run's id and the step's path, as the log and `why` name it."
            ),
        ],
    ) -> step_view.StepView:
        """Show one step: what it was given and returned, its attempts, its log, its error with the line of source."""
        return await self._do(context, step_view.show_step, step)

    async def read_log(
        self,
        context: Context[Any, Any],
        run: RunName,
        after: Annotated[int, Field(ge=0, description="The `position` of the page before this one.")] = 0,
        limit: Annotated[int, Field(ge=1, le=1_000)] = 200,
    ) -> run_log.LogPage:
        """Read what a run's agents and its workflow logged, oldest first."""
        return await self._do(context, run_log.read_page, run, after=after, limit=limit)

    async def why(
        self,
        context: Context[Any, Any],
        name: Annotated[
            str,
            Field(
                description="The id of a run, step, task or server, or its beginning. Empty: the latest run."
            ),
        ] = "",
    ) -> Reason:
        """Say why a run, a step, a task or a server does not move, down to the cause, and what would help."""
        return await self._do(context, why_it_stands, name or None)

    async def continue_step(
        self,
        context: Context[Any, Any],
        step: Annotated[str, Field(description="The id of a step that waits for its agent.")],
        result: Annotated[
            dict[str, Any] | None,
            Field(description="The return values of its facet by name; they are checked."),
        ] = None,
    ) -> control.Continued:
        """Give a step that waits for its agent the result, in the agent's place; the run goes on with it."""
        return await self._do(context, control.continue_step, step, result)

    async def retry(
        self,
        context: Context[Any, Any],
        name: Annotated[str, Field(description="A failed run, or one failed step of it, by id.")],
    ) -> control.Retried:
        """Try the failed steps of a run again, or one of them. What is done stays done."""
        return await self._do(context, control.retry, name)

    async def pause_run(self, context: Context[Any, Any], run: RunName) -> control.Change:
        """Stop a run where it stands. Tasks that are being worked on go on; their results wait."""
        return await self._do(context, control.pause, run)

    async def unpause_run(
        self,
        context: Context[Any, Any],
        run: RunName,
        budget_usd: Annotated[
            float | None,
            Field(ge=0, description="A larger budget for its models, if it stopped at the old one."),
        ] = None,
    ) -> control.Change:
        """Let a paused run go on."""
        return await self._do(context, control.unpause, run, budget_usd=budget_usd)

    async def cancel_run(self, context: Context[Any, Any], run: RunName) -> control.Change:
        """End a run and its tasks for good, whoever works on them. `retry` takes it up again from where it was."""
        return await self._do(context, control.cancel, run)
