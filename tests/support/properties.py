"""How hard properties are tried: the same examples on every run, unless AFL_EXPLORE=<factor> asks for new and more."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

_USUAL = 100
_LIMIT_SECONDS = 600  # of a test, times the factor: more examples take longer
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
    if EXPLORING:
        os.environ.setdefault("PYTEST_TIMEOUT", str(_LIMIT_SECONDS * int(_FACTOR)))
    else:
        _read_no_module()


def _read_no_module() -> None:
    """Without the constants of our modules among the examples, they do not depend on which modules are imported.

    To read every module for them takes each process of the tests 8 s in a fresh clone.
    """
    providers._get_local_constants = lambda: providers._local_constants
