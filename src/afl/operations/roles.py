"""Who asks, and what they may do."""

from __future__ import annotations

import getpass
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do: look, act, or also change what others rely on.

    A worker may claim tasks and report on them, and nothing else; of the others, only an admin may do that.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    WORKER = "worker"

    def allows(self, needed: Role) -> bool:
        """Whether this role includes the other."""
        if Role.WORKER in (self, needed):
            return self is needed or self is Role.ADMIN
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, with which role, and from where."""

    name: str
    role: Role
    origin: str = ""


def operator() -> str:
    """Who gives the order: the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine, as in some containers
        return "unknown"
