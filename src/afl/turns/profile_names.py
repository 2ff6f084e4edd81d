"""Names in the profile of an agent that are nearly known ones: a budget that is misspelled would not be kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from afl.kernel.errors import InputError

_MISSPELLED = 0.8  # how alike two names are then: budgets and budget are, budget_code and budget are not
NAMES: tuple[str, ...] = (
    "allowed_internal_tools",
    "budget",
    "delegation_policy",
    "guardrails",
    "history",
    "llm_config",
    "must_end_with",
    "worker_target",
)


def check_names(agent_id: str, profile: Mapping[str, Any], settings: Iterable[str]) -> None:
    """InputError for a name that is nearly one of a profile, or of the `settings` in its `llm_config`.

    Other names are kept: a profile may have more than what we read.
    """
    given = [(name, "", NAMES) for name in profile]
    config = profile.get("llm_config")
    if isinstance(config, Mapping):
        given += [(str(name), "llm_config.", tuple(settings)) for name in config]
    for name, place, known in given:
        near = [] if name in known else get_close_matches(name, known, 1, _MISSPELLED)
        if near:
            raise InputError(f"agent {agent_id}: there is no {place}{name}; did you mean {place}{near[0]}?")
