"""`@tool`: a function as a tool, with what is to be known of it besides its signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from afl.turns.tools.approval import Approve, Expired
from afl.turns.tools.local import LocalTool, local_tool
from afl.turns.tools.outcome import SUSPEND
from afl.turns.tools.workflow_tool import WorkflowTool, workflow_tool


@overload
def tool(
    function: Callable[..., Any],
    /,
    *,
    name: str = "",
    after_execution: str | None = None,
    timeout: float | None = None,
    approve: Approve | None = None,
    approve_timeout: float | None = None,
    approve_expired: Expired | None = None,
) -> LocalTool: ...


@overload
def tool(
    *,
    name: str = "",
    after_execution: str | None = None,
    timeout: float | None = None,
    approve: Approve | None = None,
    approve_timeout: float | None = None,
    approve_expired: Expired | None = None,
) -> Callable[[Callable[..., Any]], LocalTool]: ...


@overload
def tool(
    *,
    workflow: str,
    name: str = "",
    after_execution: str = SUSPEND,
    timeout: float | None = None,
    approve: bool | str = False,
    approve_timeout: float | None = None,
    approve_expired: Expired = "reject",
    task_list: str = "default",
) -> WorkflowTool: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """The tool a function is: `tool(refund, approve="finance")`, or `@tool(approve="finance")` above the function, with
    the options of `local_tool`. It can be called as the function can. `tool` of a tool is a copy of it with the options
    that are given.

    With `workflow` it is the workflow of that name: a call starts a run, and the turn waits for its end.
    """
    if "workflow" in options:
        return workflow_tool(options.pop("workflow"), **options)
    if function is not None:
        return local_tool(function, **options)

    def decorated(function: Callable[..., Any]) -> LocalTool:
        return local_tool(function, **options)

    return decorated
