"""What an agent is told beyond its prompt and tools, by names that nothing reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.turns import agent
from afl.turns.profile_names import check_names

SETTINGS = ("model", "max_tokens", "temperature", "max_retries")


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        (
            {"budgets": {"turn": {"usd": 1}}},
            "agent clerk: there is no argument budgets; did you mean budget?",
        ),
        ({"guardrail": None}, "did you mean guardrails?"),
        ({"toolz": []}, "there is no argument toolz; did you mean tools?"),
        ({"model": "small"}, 'there is no argument model; write llm_config={"model": ...}'),
        ({"temperature": 0}, 'write llm_config={"temperature": ...}'),
        ({"retries": 3}, 'write llm_config={"max_retries": ...}'),
        ({"max_steps": 3}, 'write budget={"turn": {"steps": ...}}, or --max-steps'),
        ({"instructions": "x"}, "write the prompt, which is the second argument"),
        ({"cost_center": "7"}, "known are prompt, tools, worker_target, tags, result, mcp, allowed_internal"),
        ({"llm_config": {"temprature": 0}}, "there is no llm_config.temprature; did you mean temperature?"),
        ({"llm_config": {"color": 0}}, "there is no llm_config.color; known are model, max_tokens"),
        (
            {"delegation_policy": {"targets": []}},
            "there is no delegation_policy.targets; did you mean target_",
        ),
    ],
)
def test_a_name_that_nothing_reads_is_refused(profile: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        check_names("clerk", profile, SETTINGS)


def test_a_declaration_is_refused_where_it_is_written() -> None:
    with pytest.raises(InputError, match="agent clerk: there is no argument model"):
        agent("clerk", "You file.", model="openai:gpt-5-mini")


def test_known_names_are_kept() -> None:
    policy = {"target_profiles": ["writer"], "target_tags": None}
    given = {"budget": {}, "llm_config": {"model": "small"}, "delegation_policy": policy}
    check_names("clerk", given, SETTINGS)
