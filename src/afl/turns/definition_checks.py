"""What an agent may be defined with. What cannot be is told where the agent is defined, not in its first turn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.turns.budgets.limits import read_budget
from afl.turns.guardrails import Guardrails, read_checks
from afl.turns.profile_names import check_names
from afl.turns.sessions.history import check_history
from afl.turns.tools.local import LocalTool, local_tool
from afl.turns.tools.workflow_tool import WorkflowTool
from afl.turns.worker.toolkit import LLM_CONFIG, LlmConfig, profile_of

_STORED = (LLM_CONFIG, "must_end_with", "allowed_internal_tools", "delegation_policy")


def check_definition(agent_id: str, prompt: Any, profile: Mapping[str, Any]) -> None:
    """InputError names the agent, and what is wrong."""
    check_names(agent_id, profile, LlmConfig.__struct_fields__)
    if not isinstance(prompt, str) and not callable(prompt):
        raise InputError(
            f"agent {agent_id}: prompt is {prompt!r}; expected text, or a function that makes it"
        )
    try:
        if profile.get("history") is not None:
            check_history(profile["history"])
        if profile.get("budget") is not None:
            read_budget(profile["budget"])
        _check_guardrails(profile.get("guardrails"))
        _check_stored({"name": agent_id, **{name: profile[name] for name in _STORED if name in profile}})
    except InputError as error:
        raise InputError(f"agent {agent_id}: {str(error).removeprefix(f'profile {agent_id}: ')}") from error


def read_tools(agent_id: str, tools: Iterable[Any] | None) -> list[LocalTool | WorkflowTool | str] | None:
    """The tools of an agent, each of its functions as a tool; InputError names the agent, and what is no tool."""
    if tools is None:
        return None
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise InputError(
            f"agent {agent_id}: tools is {tools!r}; expected a list of functions or names of tools"
        )
    try:
        return [each if isinstance(each, (str, WorkflowTool)) else local_tool(each) for each in tools]
    except InputError as error:
        raise InputError(f"agent {agent_id}: {error}") from error


def _check_stored(profile: Mapping[str, Any]) -> None:
    """What a worker reads, as it reads it: from the JSON data of a card."""
    profile_of(codec.decode(codec.encode(profile, what="its profile")))


def _check_guardrails(given: Any) -> None:
    if given is None or isinstance(given, Guardrails):
        return
    if not isinstance(given, Mapping):
        kinds = "Guardrails(input=[...], output=[...], tools=[...])"
        raise InputError(f"guardrails is {given!r}; expected {kinds}")
    read_checks(given, "its profile")
