"""How hard properties are tried: the same examples on every run, unless AFL_EXPLORE=<factor> asks for new and more."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

_USUAL = 100
_FACTOR = os.environ.get("AFL_EXPLORE", "")


def tries(examples: int) -> settings:
    """Settings for a property that needs about this many examples."""
    return settings(
        max_examples=examples * int(_FACTOR or 1),
        derandomize=not _FACTOR,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )


def be_the_usual() -> None:
    """What counts for properties that say nothing: above all no time limit, which a busy machine would exceed."""
    settings.register_profile("agentflow", tries(_USUAL))
    settings.load_profile("agentflow")
