"""What an agent cannot be defined with is told at once, with what is expected."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.turns import Guardrails, agent, open_agents


def look(what: str) -> str:
    return what


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"tools": [partial(look, what="x")]}, r"agent ada: a functools\.partial cannot be a tool; write a function"),
        ({"tools": [5]}, "agent ada: 5 is not a tool; expected a function"),
        ({"tools": [lambda: 1]}, r"agent ada: tool '<lambda>'.*name="),
        ({"tools": look}, "agent ada: tools is .*; expected a list of functions"),
        ({"tools": "look"}, "agent ada: tools is 'look'; expected a list of functions"),
        ({"history": 20}, r'agent ada: history is 20; expected limits by name, such as \{"last": 20\}'),
        ({"history": {"first": 2}}, "agent ada: history: .*known are last"),
        ({"budget": 3}, "agent ada: budget is 3; expected limits by name"),
        ({"guardrails": [look]}, r"agent ada: guardrails is .*; expected Guardrails\(input="),
        ({"guardrails": {"inputs": ["x"]}}, "agent ada: its profile: guardrails is .*input, output, tools"),
        ({"prompt": None}, "agent ada: prompt is None; expected text, or a function"),
        ({"llm_config": {"tool_choice": "never"}}, "agent ada: llm_config: .*'never'.*tool_choice"),
        ({"llm_config": {"fallback": "small"}}, "agent ada: llm_config: Expected `array`.*fallback"),
        ({"llm_config": {"max_tokens": 0}}, "agent ada: llm_config: max_tokens is 0; expected at least 1"),
        ({"llm_config": "small"}, "agent ada: llm_config is 'small'; expected settings by name"),
        ({"must_end_with": "submit_result"}, "agent ada: must_end_with is .*; expected a list of names"),
        ({"delegation_policy": ["cook"]}, "agent ada: delegation_policy is .*; expected target_profiles"),
        ({"budgets": {}}, "agent ada: there is no argument budgets"),
    ],
)  # fmt: skip
def test_what_an_agent_cannot_be(given: dict[str, Any], told: str) -> None:
    async def define() -> None:
        async with open_agents("memory://") as agents:
            await agents.define("ada", **given)

    with pytest.raises(InputError, match=told):
        agent("ada", **given)
    with pytest.raises(InputError, match=told):
        asyncio.run(define())


@pytest.mark.parametrize("kind", ["input", "output", "tools"])
def test_checks_are_a_list_of_functions(kind: str) -> None:
    with pytest.raises(InputError, match=f"{kind} of Guardrails is .*; expected a list of functions"):
        Guardrails(**{kind: look})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not a check"):
        Guardrails(**{kind: ["look"]})  # type: ignore[arg-type]


def test_an_agent_may_have_tools_from_an_iterator() -> None:
    declared = agent("ada", tools=(each for each in [look, "search"]), history={"last": 2})
    assert declared.tools is not None and len(declared.tools) == 2
    assert [tool.name for tool in declared.functions] == ["look"]
