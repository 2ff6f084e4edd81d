"""What an agent is: the JSON of its `sys.profile` card, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from afl.kernel.errors import InputError
from afl.models.messages import MAX_TOKENS
from afl.turns.orchestration.policy import DelegationPolicy, policy_of
from afl.turns.orchestration.requests import KINDS
from afl.turns.tools.submit import SUBMIT_RESULT


class LlmConfig(msgspec.Struct, frozen=True):
    """How the model is called; an empty name is the worker's own model."""

    model: str = ""
    max_tokens: int = MAX_TOKENS
    stream: bool = True


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

    def allows(self, tool: str) -> bool:
        """Whether the agent may call a tool that is not built in."""
        return self.allowed_tools is None or tool in self.allowed_tools

    def allows_builtin(self, tool: str) -> bool:
        """Whether it may call a built-in: one that is named, or those of delegation where there is a policy for it."""
        if tool in self.internal_tools or tool in self.must_end_with or tool in (self.allowed_tools or ()):
            return True
        return self.policy is not None and tool in KINDS

    def may_submit(self, asked: bool) -> bool:
        """Whether it may call submit_result; it may when fields were asked for."""
        return asked or self.allows_builtin(SUBMIT_RESULT)


def profile_of(data: Mapping[str, Any]) -> Profile:
    """The profile; InputError names what cannot be read."""
    name = data.get("name")
    if not isinstance(name, str) or not name:
        raise InputError("the profile has no name")
    prompt = data.get("system_prompt_template", "")
    if not isinstance(prompt, str):
        raise InputError(f"profile {name}: system_prompt_template must be text")
    try:
        llm = msgspec.convert(data.get("llm_config") or {}, LlmConfig)
    except msgspec.ValidationError as error:
        raise InputError(f"profile {name}: llm_config: {error}") from error
    allowed = _names(data, "allowed_tools", name)
    return Profile(
        name,
        prompt,
        None if allowed is None else frozenset(allowed),
        frozenset(_names(data, "allowed_internal_tools", name) or ()),
        tuple(_names(data, "must_end_with", name) or ()),
        llm,
        policy_of(data),
    )


def _names(data: Mapping[str, Any], key: str, name: str) -> list[str] | None:
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"profile {name}: {key} is {value!r}; expected a list of names")
    return value
