"""Workflows as tools of agents: starts a run for each call, and reports its end to the turn that waits.

The id of the run follows from the id of the call, and the first report counts. So any number of processes may host the
same tools, and any of them may die at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from afl.kernel.canceling import cancel_and_wait
from afl.kernel.database import Database, Transaction
from afl.kernel.errors import AgentFlowError, InputError
from afl.operations.program.library import find_workflow, load_workflow, program_named
from afl.operations.program.submission import submit
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.task_handlers.tool_definition import params_schema
from afl.runtime.types import WorkflowId
from afl.turns.agents import Agents
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, put_tool
from afl.turns.tools.open_calls import OpenCall, answer_call, open_calls
from afl.turns.tools.outcome import Outcome, failed, outcome_of
from afl.turns.tools.workflow_tool import WorkflowTool

_POLL_SECONDS = 0.25
_log = logging.getLogger("afl.turns")


def run_of_call(tool_call_id: str) -> str:
    """The id of the run that a call starts."""
    return f"tool-{tool_call_id}"


class WorkflowTools:
    """The workflow tools of one process."""

    def __init__(
        self, agents: Agents, tools: Sequence[WorkflowTool], store: PersistenceAPI | None = None
    ) -> None:
        self._agents = agents
        self._tools = {each.name: each for each in tools}
        self._store = store if store is not None else SqlStore(agents.engine.database)

    async def register(self) -> None:
        """Enter the tools into the project; NotFoundError for a workflow that the store does not know."""
        rows = [await asyncio.to_thread(self._row, tool) for tool in self._tools.values()]

        def work(tx: Transaction) -> None:
            for row in rows:
                put_tool(tx, row)

        await self._database.run("write", work)

    async def sweep(self) -> None:
        """Start the runs of new calls, and report those that have ended."""
        names = list(self._tools)
        found = await self._database.run("read", lambda tx: open_calls(tx, self._agents.project, names))
        for call in found:
            try:
                outcome = await asyncio.to_thread(self._outcome, call)
                if outcome is not None:
                    await self._report(call, outcome)
            except AgentFlowError as error:  # the store is away, or the workflow; the next sweep may succeed
                _log.warning("call %s of %s waits: %s", call.tool_call_id, call.tool_name, error)

    async def serve(self) -> None:
        """Sweep until canceled."""
        while True:
            try:
                await self.sweep()
            except Exception as error:  # whatever it is, the loop must go on
                known = isinstance(error, AgentFlowError)
                _log.warning("workflow tools wait: %s", error, exc_info=not known)
            await asyncio.sleep(_POLL_SECONDS)

    @property
    def _database(self) -> Database:
        return self._agents.engine.database

    def _outcome(self, call: OpenCall) -> Outcome | None:
        """What the run of a call came to; None while it runs. A call without a run gets one."""
        run = self._store.get_run(WorkflowId(run_of_call(call.tool_call_id)))
        if run is None:
            return self._start(call)
        return _outcome_of(run, self._tools[call.tool_name])

    def _start(self, call: OpenCall) -> Outcome | None:
        tool = self._tools[call.tool_name]
        known = find_workflow(self._store, tool.workflow)
        program = load_workflow(self._store, known)
        try:
            submit(
                self._store,
                program,
                dict(call.arguments),
                id=run_of_call(call.tool_call_id),
                task_list=tool.task_list,
                flow_id=known.flow,
                tags={"agent": call.turn.agent_id, "turn": call.turn.agent_turn_id},
            )
        except InputError as error:
            return failed("invalid_arguments", str(error))
        return None

    async def _report(self, call: OpenCall, outcome: Outcome) -> None:
        result = await self._database.run("write", partial(answer_call, call=call, outcome=outcome))
        if result is not None:
            self._agents.engine.publish(result)

    def _row(self, tool: WorkflowTool) -> Tool:
        program = program_named(self._store, tool.workflow)
        options: dict[str, Any] = {"suspend_timeout_seconds": tool.timeout, "workflow": tool.workflow}
        return Tool(
            self._agents.project,
            tool.name,
            _description(program),
            params_schema(program.workflow),
            f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.workflows.{tool.name}",
            tool.after_execution,
            options | (tool.approval.stored() if tool.approval else {}),
        )


@asynccontextmanager
async def workflow_tools(
    agents: Agents, tools: Sequence[WorkflowTool], store: PersistenceAPI | None = None
) -> AsyncIterator[WorkflowTools]:
    """Host these tools while the block lasts; nothing is done where there are none."""
    hosted = WorkflowTools(agents, tools, store)
    if not tools:
        yield hosted
        return
    await hosted.register()
    serving = asyncio.create_task(hosted.serve())
    try:
        yield hosted
    finally:
        await cancel_and_wait([serving])


def _outcome_of(run: RunDefinition, tool: WorkflowTool) -> Outcome | None:
    if not run.is_over:
        return None
    if run.state == RunnerState.COMPLETED:
        return outcome_of(dict(run.outputs), tool=tool.name, after_execution=tool.after_execution)
    error: Mapping[str, Any] = run.error or {}
    said = str(error.get("message") or run.reason or f"the run ended {run.state}")
    return failed(str(error.get("type") or run.state), f"{said} (run {run.workflow_id})")


def _description(program: Program) -> str:
    doc = program.workflow.ast.get("doc")
    text = str(doc.get("description", "")) if isinstance(doc, Mapping) else str(doc or "")
    return text or f"Run the workflow {program.workflow.name}, and wait for its end."
