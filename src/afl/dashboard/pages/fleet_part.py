"""What the fleet is, for pages that cannot reach it."""

from __future__ import annotations

from afl.dashboard.pages.parts import Part
from afl.fleet.errors import KeyFileError, PrincipalAway, PrincipalFailed

FLEET = Part(
    "fleet",
    "Fleet",
    "A principal keeps workflows of processes and starts them, by the clock or when asked; agents on any machine "
    "run them.",
    (
        ("Make a folder with a first workflow", "afl fleet init"),
        ("Start a principal with an agent beside it", "afl fleet principal --with-agent"),
        ("See what the settings say", "afl fleet settings"),
    ),
    (PrincipalAway, PrincipalFailed, KeyFileError),
)
