"""The built-in tools by which agents delegate to other agents: their arguments, and the `delegation_policy`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from afl.kernel.errors import InputError
from afl.models import Tool

MAX_TASKS = 8
DEADLINE_SECONDS = 900.0

Strategy = Literal["new", "reuse", "clone"]
R = TypeVar("R", bound=msgspec.Struct)


class Assignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Work for one agent: `new` takes the name of a profile, `reuse` and `clone` the id of an agent."""

    target_strategy: Strategy
    target_ref: str
    instruction: str
    context_box_id: str | None = None


class AskExpert(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    expert_profile: str
    question: str
    include_history: bool = False


class LaunchPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    profile_name: str
    instruction: str


class ForkJoin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    tasks: list[Assignment]
    fail_fast: bool = False
    deadline_seconds: float | None = None


class ProvisionAgent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    action: Literal["ensure", "create", "derive"]
    agent_id: str
    profile_name: str | None = None
    profile_box_id: str | None = None
    derived_from: str | None = None
    display_name: str | None = None
    owner_agent_id: str | None = None
    worker_target: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None


class Remember(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    text: Annotated[str, msgspec.Meta(min_length=1, max_length=10_000)]


class Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(max_length=1_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 5


KINDS: Mapping[str, type[msgspec.Struct]] = {
    "delegate_async": Assignment,
    "ask_expert": AskExpert,
    "launch_principal": LaunchPrincipal,
    "fork_join": ForkJoin,
    "provision_agent": ProvisionAgent,
    "remember": Remember,
    "remember_for_all": Remember,
    "recall": Recall,
}
MEMORY = frozenset({"remember", "remember_for_all", "recall"})
_ABOUT: Mapping[str, str] = {
    "delegate_async": "Set another agent to work and go on at once; its result is not awaited.",
    "ask_expert": "Ask an agent of the given profile a question and go on at once; its answer is not awaited.",
    "launch_principal": "Start an agent of the given profile with an instruction; it works on its own.",
    "fork_join": f"Set up to {MAX_TASKS} agents to work side by side and wait for their results, in order.",
    "provision_agent": "Make sure that an agent exists: ensure, create, or derive it from another one.",
    "remember": "Keep a fact for later turns of this conversation.",
    "remember_for_all": "Keep a fact that you may use in every conversation; nothing private.",
    "recall": "Find what you were told to remember, by words in it; an empty query finds the latest.",
}


def builtin_tool(name: str) -> Tool:
    """A built-in as the model sees it."""
    (schema,), shared = msgspec.json.schema_components([KINDS[name]], ref_template="#/$defs/{name}")
    root = shared.pop(KINDS[name].__name__, dict(schema))
    root.pop("title", None)
    return Tool(name, _ABOUT[name], {**root, "$defs": shared} if shared else root)


def read_request(kind: type[R], arguments: Mapping[str, Any], tool: str) -> R:
    """The arguments of a call as their type; InputError names the one that does not fit."""
    try:
        return msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{tool}: {error}") from error


def checked_fork(request: ForkJoin, waiting: Collection[str]) -> ForkJoin:
    """The request; InputError if it cannot be done. `waiting`: the agents that would wait for its end."""
    if not 1 <= len(request.tasks) <= MAX_TASKS:
        raise InputError(f"fork_join: {len(request.tasks)} tasks; expected 1 to {MAX_TASKS}")
    if request.deadline_seconds is not None and not request.deadline_seconds > 0:
        raise InputError(f"fork_join: deadline_seconds is {request.deadline_seconds}; expected more than 0")
    reused = [task.target_ref for task in request.tasks if task.target_strategy == "reuse"]
    if len(set(reused)) < len(reused):
        raise InputError("fork_join: two tasks reuse the same agent; one agent has one turn at a time")
    for agent in waiting:
        if agent in reused:
            raise InputError(
                f"fork_join: {agent} would wait for itself, and one agent has one turn at a time; "
                "use the strategy new or clone"
            )
    return request


@dataclass(frozen=True, slots=True)
class DelegationPolicy:
    """Which agents may be delegated to. `profiles` None: all of them. `tags` None: any; else one of these is needed."""

    profiles: frozenset[str] | None = None
    tags: frozenset[str] | None = None

    def refusal(self, profile: str, tags: Iterable[str]) -> str | None:
        """Why a target is not allowed; None if it is."""
        if self.profiles is not None and profile.lower() not in self.profiles:
            allowed = ", ".join(sorted(self.profiles)) or "none"
            return f"the delegation policy does not allow the profile {profile!r}; allowed are: {allowed}"
        if self.tags is not None and self.tags.isdisjoint(tags):
            return (
                f"the delegation policy requires one of the tags {', '.join(sorted(self.tags)) or '(none)'}"
            )
        return None


def policy_of(profile: Mapping[str, Any]) -> DelegationPolicy | None:
    """The policy in a profile; None when it has none, and then nothing may be delegated."""
    policy = profile.get("delegation_policy")
    if policy is None:
        return None
    if not isinstance(policy, Mapping):
        raise InputError(f"delegation_policy is {policy!r}; expected target_profiles and target_tags")
    profiles = _names(policy, "target_profiles")
    return DelegationPolicy(
        None if profiles is None else frozenset(name.lower() for name in profiles),
        _names(policy, "target_tags"),
    )


def _names(policy: Mapping[str, Any], key: str) -> frozenset[str] | None:
    names = policy.get(key)
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"delegation_policy.{key} is {names!r}; expected a list of names, or null for all")
    return frozenset(names)
