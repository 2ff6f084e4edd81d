"""How hard properties are tried: the same examples on every run, unless AFL_EXPLORE=<factor> asks for new and more."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_USUAL = 100
_FACTOR = os.environ.get("AFL_EXPLORE", "")
EXPLORING = bool(_FACTOR)


def tries(examples: int, *, deep: int = 0) -> settings:
    """Settings for a property that needs about this many examples, or `deep` as the base of an exploration."""
    return settings(
        max_examples=max(examples, deep) * int(_FACTOR) if EXPLORING else examples,
        derandomize=not EXPLORING,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def be_the_usual() -> None:
    """What counts for properties that say nothing: above all no time limit, which a busy machine would exceed."""
    settings.register_profile("agentflow", tries(_USUAL))
    settings.load_profile("agentflow")
