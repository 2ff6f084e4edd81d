"""What an agent is told beyond its prompt and tools, by names that are misspelled."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.turns.profile_names import check_names

SETTINGS = ("model", "max_tokens", "temperature")


@pytest.mark.parametrize(
    ("profile", "told"),
    [
        ({"budgets": {"turn": {"usd": 1}}}, "agent clerk: there is no budgets; did you mean budget?"),
        ({"guardrail": None}, "did you mean guardrails?"),
        ({"llm_config": {"temprature": 0}}, "no llm_config.temprature; did you mean llm_config.temperature?"),
    ],
)
def test_a_name_that_is_nearly_known_is_refused(profile: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told.replace("?", r"\?")):
        check_names("clerk", profile, SETTINGS)


def test_known_names_and_those_of_others_are_kept() -> None:
    check_names("clerk", {"budget": {}, "llm_config": {"model": "small"}, "budget_code": "7"}, SETTINGS)
