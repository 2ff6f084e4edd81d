"""The ways a page is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Look:
    """A name, and the options of a browser's context."""

    name: str
    options: dict[str, Any]


_DESKTOP = {"viewport": {"width": 1280, "height": 800}, "reduced_motion": "reduce", "locale": "en-GB"}
LOOKS = (
    Look("light", {**_DESKTOP, "color_scheme": "light"}),
    Look("dark", {**_DESKTOP, "color_scheme": "dark"}),
    Look(
        "phone",
        {
            "viewport": {"width": 390, "height": 844},
            "color_scheme": "light",
            "reduced_motion": "reduce",
            "locale": "en-GB",
            "has_touch": True,
            "is_mobile": True,
        },
    ),
)
