"""One finding of `afl doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    OK = "ok"
    NOTE = "note"  # worth knowing
    WARNING = "warning"  # it works, and may hurt one day
    ERROR = "error"  # work is lost, refused or stands still


@dataclass(frozen=True)
class Finding:
    """What a check found: `text` says what is so, `remedy` what to do about it."""

    check: str
    level: Level
    text: str
    remedy: str = ""

    @property
    def is_wrong(self) -> bool:
        """Whether somebody should do something."""
        return self.level in (Level.WARNING, Level.ERROR)


def fine(check: str, text: str) -> list[Finding]:
    """Nothing is wrong."""
    return [Finding(check, Level.OK, text)]


def note(check: str, text: str, remedy: str = "") -> list[Finding]:
    """Nothing is wrong, and somebody may want to know."""
    return [Finding(check, Level.NOTE, text, remedy)]


def warning(check: str, text: str, remedy: str) -> list[Finding]:
    """It works, and may hurt one day."""
    return [Finding(check, Level.WARNING, text, remedy)]


def error(check: str, text: str, remedy: str) -> list[Finding]:
    """Something does not work."""
    return [Finding(check, Level.ERROR, text, remedy)]
