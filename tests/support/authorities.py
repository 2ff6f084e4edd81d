"""Whom HTTP clients trust in tests: one authority that signs nothing. No test speaks TLS to a server outside.

The usual file has over a hundred of them, and every HTTP client that is made reads it: 50 ms of processor time each.
"""

from __future__ import annotations

import os
from pathlib import Path

_ONE = str(Path(__file__).with_name("one_authority.pem"))
_NAME = "SSL_CERT_FILE"
_USUAL = "TESTS_USUAL_SSL_CERT_FILE"  # what the environment said, for worker processes, too


def trust_one_authority() -> None:
    """Let this process, and those it starts, read a short file."""
    os.environ.setdefault(_USUAL, os.environ.get(_NAME, ""))
    os.environ[_NAME] = _ONE


def trusting_the_usual() -> dict[str, str]:
    """The environment of a program that fetches from outside, as an installer does."""
    usual = os.environ.get(_USUAL, "")
    others = {name: value for name, value in os.environ.items() if name not in (_NAME, _USUAL)}
    return others | ({_NAME: usual} if usual else {})
