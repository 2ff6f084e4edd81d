"""A workflow as a tool: a call starts a durable run, and the turn waits for its end.

The host that starts the runs is `operations/turn/workflow_tools.py`; `afl turns worker` has one.
"""

from __future__ import annotations

from dataclasses import dataclass

from afl.kernel.errors import InputError
from afl.turns.statuses import AfterExecution
from afl.turns.tools.approval import FOREVER, ApprovalRule, Approve, Expired, approval_rule
from afl.turns.tools.outcome import AFTER_EXECUTION, SUSPEND
from afl.turns.tools.tool_names import check_tool_name


@dataclass(frozen=True, slots=True)
class WorkflowTool:
    """A workflow that a model may start. `timeout` is how long the turn waits for the run, in seconds."""

    workflow: str
    name: str
    timeout: float = FOREVER
    after_execution: AfterExecution = AfterExecution.SUSPEND
    approval: ApprovalRule | None = None
    task_list: str = "default"


def workflow_tool(
    workflow: str,
    *,
    name: str = "",
    after_execution: str = SUSPEND,
    timeout: float | None = None,
    approve: Approve = False,
    approve_timeout: float | None = None,
    approve_expired: Expired = "reject",
    task_list: str = "default",
) -> WorkflowTool:
    """The tool that starts a workflow of the store; its parameters and description are those of the workflow.

    `timeout` None: the turn waits as long as the run takes.
    """
    if after_execution not in AFTER_EXECUTION:
        raise InputError(f"after_execution is {after_execution!r}; expected suspend or terminate")
    if timeout is not None and not timeout > 0:
        raise InputError(f"the timeout of a tool is {timeout!r}; expected seconds, more than 0")
    rule = approval_rule(approve, approve_timeout, approve_expired)
    if rule is not None:
        rule.stored()  # a function cannot be stored, which is told now
    called = check_tool_name(name or workflow.rpartition(".")[2])
    return WorkflowTool(
        workflow, called, timeout or FOREVER, AfterExecution(after_execution), rule, task_list
    )
