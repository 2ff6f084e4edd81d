"""The tools of one agent in one turn, as its profile allows: what its model is offered, and where a call goes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from msgspec import structs

from afl.kernel.errors import InputError
from afl.models import Tool
from afl.models.messages import MAX_TOKENS, unreadable
from afl.models.settings import ModelSettings, read_settings
from afl.turns.budgets.limits import AgentBudget, read_budget
from afl.turns.guardrails import Ask, NamedChecks, read_checks
from afl.turns.orchestration.requests import KINDS, MEMORY, DelegationPolicy, builtin_tool, policy_of
from afl.turns.protocol.subjects import PMO_INTERNAL
from afl.turns.resources import Tool as ToolRow
from afl.turns.sessions.history import check_history
from afl.turns.tools.approval import (
    APPROVALS,
    ApprovalRule,
    AskedApproval,
    read_rules,
    rule_in_force,
    stored_rule,
)
from afl.turns.tools.expected import Expected
from afl.turns.tools.local import LocalTool, Toolbox, near
from afl.turns.tools.outcome import Outcome, failed
from afl.turns.tools.submit import SUBMIT_RESULT

LLM_CONFIG = "llm_config"  # in a profile, and in the metadata of an instruction


class LlmConfig(ModelSettings, frozen=True, kw_only=True):
    """How the model is called; an empty name is the worker's own model."""

    model: str = ""
    max_tokens: int = MAX_TOKENS
    stream: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_tokens < 1:
            raise ValueError(f"max_tokens is {self.max_tokens}; expected at least 1")

    def with_call(self, given: Mapping[str, Any] | None) -> LlmConfig:
        """With the settings of one call over those of the agent; InputError for what is no setting."""
        if not given:
            return self
        if not isinstance(given, Mapping):
            raise InputError(f"llm_config is {given!r}; expected settings by name")
        return read_settings(LlmConfig, {**structs.asdict(self), **given}, "llm_config")


@dataclass(frozen=True, slots=True)
class Profile:
    """`allowed_tools` None: all of them."""

    name: str
    system_prompt: str = ""
    allowed_tools: frozenset[str] | None = None
    internal_tools: frozenset[str] = frozenset()
    must_end_with: tuple[str, ...] = ()
    llm: LlmConfig = field(default_factory=LlmConfig)
    policy: DelegationPolicy | None = None
    result: Mapping[str, Any] | None = None  # the type that all its results have
    prompt_function: str = ""  # the name under which workers have the function that makes its prompt
    mcp: tuple[str, ...] = ()  # names of MCP servers whose tools it has
    served: str = ""  # what runs its turns, if not the worker itself
    history: Mapping[str, Any] | None = None  # how much of its session a turn reads
    budget: AgentBudget | None = None
    checks: NamedChecks = field(default_factory=NamedChecks)
    approvals: Mapping[str, ApprovalRule] = field(default_factory=dict)  # rules of its functions, by tool

    def allows(self, tool: str) -> bool:
        """Whether the agent may call a tool that is not built in."""
        return self.allowed_tools is None or tool in self.allowed_tools or tool in self.must_end_with

    def allows_builtin(self, tool: str) -> bool:
        """Whether it may call a built-in: one that is named, or those of delegation where there is a policy for it."""
        if tool in self.internal_tools or tool in self.must_end_with or tool in (self.allowed_tools or ()):
            return True
        return self.policy is not None and tool in KINDS and tool not in MEMORY

    def may_submit(self, asked: bool) -> bool:
        """Whether it may call submit_result; it may when fields were asked for."""
        return asked or self.allows_builtin(SUBMIT_RESULT)


def profile_of(data: Mapping[str, Any]) -> Profile:
    """The profile of an agent from its `sys.profile` card; InputError names what cannot be read."""
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("the profile has no name")
    prompt = data.get("system_prompt_template", "")
    if not isinstance(prompt, str):
        raise InputError(f"profile {name}: system_prompt_template must be text")
    config = data.get(LLM_CONFIG) or {}
    if not isinstance(config, Mapping):
        raise InputError(f"profile {name}: llm_config is {config!r}; expected settings by name")
    known = {key: value for key, value in config.items() if key in LlmConfig.__struct_fields__}
    llm = read_settings(LlmConfig, known, f"profile {name}: llm_config")
    allowed = _name_list(data, "allowed_tools", name)
    return Profile(
        name,
        prompt,
        None if allowed is None else frozenset(allowed),
        frozenset(_name_list(data, "allowed_internal_tools", name) or ()),
        tuple(_name_list(data, "must_end_with", name) or ()),
        llm,
        policy_of(data),
        data.get("result"),
        str(data.get("prompt_function") or ""),
        tuple(_name_list(data, "mcp", name) or ()),
        str(data.get("served") or ""),
        None if data.get("history") is None else check_history(data["history"]),
        None if data.get("budget") is None else read_budget(data["budget"]),
        read_checks(data.get("guardrails"), f"profile {name}"),
        read_rules(data.get(APPROVALS)),
    )


def _name_list(data: Mapping[str, Any], key: str, name: str) -> list[str] | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"profile {name}: {key} is {value!r}; expected a list of names")
    return value


class Route(StrEnum):
    """Where a call is answered."""

    LOCAL = "local"  # a function of this process
    BUILTIN = "builtin"  # the worker itself, in the step's transaction
    COMMAND = "command"  # the process that consumes the tool's subject
    SUBMIT = "submit"  # the end of the turn
    APPROVAL = "approval"  # nowhere yet: a person is asked first
    REFUSED = "refused"


APPROVABLE = (Route.LOCAL, Route.COMMAND)  # calls that a person can be asked about


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a model, and its route."""

    tool_call_id: str
    name: str
    arguments: Mapping[str, Any]
    route: Route
    local: LocalTool | None = None
    remote: ToolRow | None = None
    refusal: Outcome | None = None
    asked: AskedApproval | None = None
    ask: Ask | None = None  # what a check wants a person to be asked
    about: Tool | None = None  # of a question that is about no call of a tool
    profile_rule: ApprovalRule | None = None

    @property
    def rule(self) -> ApprovalRule | None:
        """Which calls of the tool a person must approve."""
        own = None if self.local is None else self.local.approval
        if self.remote is not None:
            own = stored_rule(self.remote.options)
        return rule_in_force(own, self.profile_rule)

    @property
    def after_execution(self) -> str:
        """What the tool declares."""
        tool = self.local or self.remote
        return "suspend" if tool is None else str(tool.after_execution)


@dataclass(frozen=True)
class Toolkit:
    """The tools that a profile allows. A function of this process wins over a row of the same name."""

    profile: Profile
    toolbox: Toolbox
    rows: Mapping[str, ToolRow] = field(default_factory=dict)
    expected: Expected | None = None  # None: no result was asked for

    def offered(self, *, last: bool = False) -> tuple[Tool, ...]:
        """The tools of a request; in the last step only those that end the turn."""
        end = ((self.expected or Expected()).tool,) if self._submits else ()
        local = [tool.tool for each in self.toolbox if (tool := self._local(each.name)) is not None]
        taken = {tool.name for tool in local} | set(KINDS)
        remote = [
            seen(row)
            for row in self.rows.values()
            if self.profile.allows(row.tool_name) and row.tool_name not in taken
        ]
        builtin = [self._builtin(name) for name in KINDS if self.profile.allows_builtin(name)]
        others = (*local, *remote, *builtin)
        if last:
            others = tuple(tool for tool in others if tool.name in self.profile.must_end_with)
        return (*others, *end)

    def routed(self, calls: Iterable[Mapping[str, Any]]) -> list[Call]:
        """The calls of a thought with their routes."""
        listed = list(calls)
        submits = sum(call["name"] == SUBMIT_RESULT for call in listed)
        return [self._routed(call, single=len(listed) == 1, submits=submits) for call in listed]

    @property
    def _submits(self) -> bool:
        return self.profile.may_submit(self.expected is not None)

    def _builtin(self, name: str) -> Tool:
        row = self._elsewhere(name)
        return builtin_tool(name) if row is None else seen(row)

    def _elsewhere(self, name: str) -> ToolRow | None:
        """A built-in that another process serves, as its row says."""
        row = self.rows.get(name)
        return row if row is not None and PMO_INTERNAL in row.target_subject else None

    def _local(self, name: str) -> LocalTool | None:
        """A function of this process as the agent has it; None: it has none of that name."""
        return self.toolbox.find(name, self.profile.name) if self.profile.allows(name) else None

    def _routed(self, call: Mapping[str, Any], *, single: bool, submits: int) -> Call:
        name, arguments = str(call["name"]), call["arguments"]

        def to(route: Route, **who: Any) -> Call:
            return Call(
                call["id"], name, arguments, route, profile_rule=self.profile.approvals.get(name), **who
            )

        if not isinstance(arguments, Mapping):
            return to(
                Route.REFUSED, refusal=failed("invalid_arguments", f"the arguments of {name} are no object")
            )
        if name == SUBMIT_RESULT and self._submits:
            return to(Route.SUBMIT) if single else to(Route.REFUSED, refusal=_not_single(submits))
        problem = unreadable(arguments, name)
        if problem is not None:
            return to(Route.REFUSED, refusal=failed("invalid_arguments", problem))
        local = self._local(name)
        if local is not None:
            return to(Route.LOCAL, local=local)
        if name in KINDS and self.profile.allows_builtin(name):
            pmo = self._elsewhere(name)
            return to(Route.BUILTIN) if pmo is None else to(Route.COMMAND, remote=pmo)
        row = self.rows.get(name)
        if row is not None and self.profile.allows(name):
            return to(Route.COMMAND, remote=row)
        return to(Route.REFUSED, refusal=self._unknown(name))

    def _unknown(self, name: str) -> Outcome:
        known = [tool.name for tool in self.offered()]
        return failed("unknown_tool", f"there is no tool {name!r} for this agent; {near(name, known)}")


def seen(row: ToolRow) -> Tool:
    """A tool of `resource.tools` as the model sees it: without the arguments that are fixed."""
    fixed = _arguments(row, "fixed")
    schema = dict(row.parameters)
    if fixed:
        schema["properties"] = {k: v for k, v in schema.get("properties", {}).items() if k not in fixed}
        schema["required"] = [name for name in schema.get("required", []) if name not in fixed]
    return Tool(row.tool_name, row.description, schema)


def full_arguments(row: ToolRow, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the call: the defaults of the tool, those of the model, and the fixed ones."""
    return {**_arguments(row, "defaults"), **given, **_arguments(row, "fixed")}


def wait_seconds(row: ToolRow) -> float | None:
    """The timeout that the tool declares."""
    said = row.options.get("suspend_timeout_seconds", row.options.get("timeout_seconds"))
    return float(said) if isinstance(said, (int, float)) and said > 0 else None


def _arguments(row: ToolRow, kind: str) -> Mapping[str, Any]:
    arguments = row.options.get("args")
    found = arguments.get(kind) if isinstance(arguments, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _not_single(submits: int) -> Outcome:
    if submits > 1:
        return failed("submit_result_twice", "submit_result was called more than once; none of them counts")
    return failed(
        "submit_result_not_alone", "submit_result must be the only call of its step; call it again, alone"
    )
