"""Tools for sources and workflows, for tasks and servers, and for what waits for a person."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from pydantic import Field

from afl.mcp.clients import RequestClient
from afl.mcp.toolbox import ADDS, CHANGES, ENDS, LOOKS, tool
from afl.operations.people import approvals
from afl.operations.program import flows, library, source_text
from afl.operations.work import task_queue, workers

Source = Annotated[str, Field(description="The text of a program in AFL.")]
ApprovalId = Annotated[str, Field(description="The approval's id, or enough of its beginning.")]


def other_tools(client: RequestClient) -> list[Tool]:
    """All of them."""
    sources, work, people = _SourceTools(client), _WorkTools(client), _PeopleTools(client)
    return [
        tool(sources.validate, "Look for mistakes in a source", LOOKS),
        tool(sources.compile, "Compile a source", LOOKS),
        tool(sources.list_workflows, "List workflows", LOOKS),
        tool(sources.show_workflow, "Show a workflow", LOOKS),
        tool(sources.list_flows, "List flows", LOOKS),
        tool(sources.show_flow, "Show a flow", LOOKS),
        tool(sources.publish_workflows, "Keep a source in the store", CHANGES),
        tool(work.list_tasks, "List tasks", LOOKS),
        tool(work.list_servers, "List servers", LOOKS),
        tool(people.list_approvals, "List approvals", LOOKS),
        tool(people.show_approval, "Show an approval", LOOKS),
        tool(people.answer_approval, "Approve", ADDS),
        tool(people.reject_approval, "Reject", ENDS),
    ]


class _SourceTools:
    """Each method is a tool; its text is what a model reads."""

    def __init__(self, client: RequestClient) -> None:
        self._do = client.call

    async def validate(
        self,
        context: Context[Any, Any],
        source: Source,
        name: Annotated[str, Field(description="What the messages call the source.")] = "",
    ) -> source_text.Compilation:
        """Look for mistakes in a source without running or storing anything.

        `findings` have the line, the column and what to do; `workflows` is what could be started, with the types of
        its parameters and returns.
        """
        return await self._do(context, source_text.compile_source, source, name=name)

    async def compile(
        self,
        context: Context[Any, Any],
        source: Source,
        name: Annotated[str, Field(description="What the messages call the source.")] = "",
    ) -> source_text.Compilation:
        """Compile a source to the JSON that the runtime executes, as `program`; nothing is stored."""
        return await self._do(context, source_text.compile_source, source, name=name, with_program=True)

    async def list_workflows(self, context: Context[Any, Any]) -> list[library.KnownWorkflow]:
        """List the workflows that can be started by name: published ones, and those that ran of late."""
        return await self._do(context, library.list_workflows)

    async def show_workflow(
        self,
        context: Context[Any, Any],
        workflow: Annotated[str, Field(description="Its full name, such as news.MorningPage.")],
    ) -> library.WorkflowView:
        """Show what a workflow takes and gives, and its source if it was published."""
        return await self._do(context, library.show_workflow, workflow)

    async def list_flows(
        self,
        context: Context[Any, Any],
        before: Annotated[str, Field(description="The `next` of the page before.")] = "",
        limit: Annotated[int, Field(ge=1, le=200)] = 20,
    ) -> flows.FlowPage:
        """List the flows, the sources that the store keeps, newest first: workflows, runs, when they were stored."""
        return await self._do(context, flows.list_flows, before=before, limit=limit)

    async def show_flow(
        self,
        context: Context[Any, Any],
        flow: Annotated[str, Field(description="Its id, enough of its beginning, or its name.")],
        with_program: Annotated[bool, Field(description="With the compiled JSON, which is long.")] = False,
    ) -> flows.FlowView:
        """Show a flow: its source, what its workflows take and give, and the compiled JSON if asked for."""
        return await self._do(context, flows.show_flow, flow, with_program=with_program)

    async def publish_workflows(
        self,
        context: Context[Any, Any],
        source: Source,
        name: Annotated[
            str, Field(description="The name to keep it under; one of that name is replaced.")
        ] = "",
    ) -> library.Published:
        """Keep a source in the store, so that its workflows can be started by name from anywhere."""
        return await self._do(context, library.publish_source, source, name=name)


class _WorkTools:
    """Each method is a tool; its text is what a model reads."""

    def __init__(self, client: RequestClient) -> None:
        self._do = client.call

    async def list_tasks(
        self,
        context: Context[Any, Any],
        state: Annotated[
            str, Field(description="pending, running, completed, failed, ignored or canceled.")
        ] = "",
        run: Annotated[str, Field(description="Only those of this run, whatever their state.")] = "",
        name: Annotated[str, Field(description="Only those of this facet.")] = "",
        task_list: Annotated[str, Field(description="Only those of this task list.")] = "",
        limit: Annotated[int, Field(ge=1, le=500)] = 50,
    ) -> list[task_queue.TaskLine]:
        """List tasks, the work of agents, oldest first; without a state or a run, all that are pending or running."""
        given: dict[str, Any] = {
            "state": state,
            "name": name,
            "task_list": task_list,
            "run": run,
            "limit": limit,
        }
        return await self._do(context, task_queue.list_tasks, **given)

    async def list_servers(self, context: Context[Any, Any]) -> list[workers.Server]:
        """List the processes that work on tasks: whether they live, which facets they serve, and how busy they are."""
        return await self._do(context, workers.servers)


class _PeopleTools:
    """Each method is a tool; its text is what a model reads."""

    def __init__(self, client: RequestClient) -> None:
        self._do = client.call

    async def list_approvals(
        self,
        context: Context[Any, Any],
        group: Annotated[str, Field(description="Only those that this group is asked.")] = "",
        after: Annotated[str, Field(description="The id of the last one of the page before.")] = "",
        limit: Annotated[int, Field(ge=1, le=200)] = 50,
    ) -> list[approvals.Approval]:
        """List what waits for a person, oldest first."""
        return await self._do(context, approvals.list_approvals, group=group, limit=limit, after=after)

    async def show_approval(self, context: Context[Any, Any], id: ApprovalId) -> approvals.ApprovalView:
        """Show a question with what is to be known and the form of its answer: the fields, their types and defaults."""
        return await self._do(context, approvals.show_approval, id)

    async def answer_approval(
        self,
        context: Context[Any, Any],
        id: ApprovalId,
        values: Annotated[
            dict[str, Any] | None,
            Field(description="The fields of its form by name; a plain question needs none."),
        ] = None,
    ) -> approvals.Answered:
        """Approve, with the values that are asked for: the step goes on with them. Only if a person told you to."""
        return await self._do(context, approvals.answer, id, values)

    async def reject_approval(
        self,
        context: Context[Any, Any],
        id: ApprovalId,
        feedback: Annotated[str, Field(description="Why; the workflow sees it.")] = "",
    ) -> approvals.Answered:
        """Refuse: the step fails with this feedback, unless its workflow catches that. Only if a person told you to."""
        return await self._do(context, approvals.reject, id, feedback)
