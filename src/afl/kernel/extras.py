"""Optional dependencies: which of an extra's requirements are not installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata

from afl.kernel.errors import pip_install

DISTRIBUTION = "agentflow-afl"
_REQUIREMENT = re.compile(
    r"(?P<name>[\w.-]+)(?:\[(?P<extras>[\w,-]+)\])?[^;]*;.*extra == ['\"](?P<extra>[\w-]+)['\"]"
)


def missing_requirements(*extras: str) -> list[str]:
    """The distributions that the extras require and that are not installed."""
    return [name for name in dict.fromkeys(_requirements(extras)) if not _is_installed(name)]


def require_extras(*extras: str) -> None:
    """End the program with one line that names the command to install them, if a requirement is missing."""
    missing = missing_requirements(*extras)
    if missing:
        raise SystemExit(f"{', '.join(missing)} not installed: {pip_install(','.join(extras))}")


def _requirements(extras: tuple[str, ...]) -> Iterator[str]:
    for line in metadata.requires(DISTRIBUTION) or ():
        found = _REQUIREMENT.match(line)
        if found is None or found["extra"] not in extras:
            continue
        if found["name"] == DISTRIBUTION:
            yield from _requirements(tuple(found["extras"].split(",")))
        else:
            yield found["name"]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
