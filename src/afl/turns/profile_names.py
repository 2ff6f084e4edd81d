"""Names in the profile of an agent that nothing reads: a budget that is misspelled would not be kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from afl.kernel.errors import InputError
from afl.kernel.near_names import near_name

NAMES: tuple[str, ...] = (
    "allowed_internal_tools",
    "budget",
    "delegation_policy",
    "guardrails",
    "history",
    "llm_config",
    "must_end_with",
)
_OTHERS: tuple[str, ...] = ("prompt", "tools", "worker_target", "tags", "result", "mcp")
_POLICY: tuple[str, ...] = ("target_profiles", "target_tags")
_INSTEAD: Mapping[str, str] = {
    "instructions": "the prompt, which is the second argument",
    "max_steps": 'budget={"turn": {"steps": ...}}, or --max-steps of `afl turns worker`',
    "output_type": "result=...",
    "result_type": "result=...",
    "retries": 'llm_config={"max_retries": ...}',
    "system_prompt": "the prompt, which is the second argument",
}


def check_names(agent_id: str, profile: Mapping[str, Any], settings: Iterable[str]) -> None:
    """InputError for a name that is none of a profile, of its `delegation_policy` or of its `llm_config`.

    `settings` are the names of the latter.
    """
    known = tuple(settings)
    for name in profile:
        if name not in NAMES:
            raise InputError(f"agent {agent_id}: there is no argument {name}; {_instead(name, known)}")
    for place, names in (("llm_config", known), ("delegation_policy", _POLICY)):
        inner = profile.get(place)
        for name in inner if isinstance(inner, Mapping) else ():
            if name not in names:
                raise InputError(f"agent {agent_id}: there is no {place}.{name}; {_known(str(name), names)}")


def _instead(name: str, settings: tuple[str, ...]) -> str:
    if name in settings:
        return f'write llm_config={{"{name}": ...}}'
    if name in _INSTEAD:
        return f"write {_INSTEAD[name]}"
    return _known(name, (*_OTHERS, *NAMES))


def _known(name: str, names: Iterable[str]) -> str:
    near = near_name(name, names)
    return f"did you mean {near}?" if near else f"known are {', '.join(names)}"
