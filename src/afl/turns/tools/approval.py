"""Tools that a person must approve before they are called: which calls, who is asked, and for how long.

@tool(approve="finance", approve_timeout=3600)
def refund(order: str, cents: int) -> str: ...
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from afl.kernel.errors import InputError

ANYONE = "operators"  # who is asked when no group is named
FOREVER = 10 * 365 * 86_400.0  # seconds
APPROVALS = "approvals"  # in a profile: the rules of the agent's functions, by the names of the tools
_OPTION = "approval"
_FUNCTION = {"function": True}  # in the place of one, which cannot be stored
_log = logging.getLogger("afl.turns")

Expired = Literal["reject", "fail"]
Approve = bool | str | Callable[[Mapping[str, Any]], bool | str]


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Which calls of a tool are asked for. `seconds` None: as long as it takes."""

    approve: Approve
    seconds: float | None = None
    expired: Expired = "reject"

    def group(self, arguments: Mapping[str, Any]) -> str | None:
        """Who is asked about a call with these arguments; None: nobody, it is made.

        A function that raises cannot say that the call is harmless, so somebody is asked.
        """
        found: object = self.approve
        if callable(found):
            try:
                found = found(arguments)
            except Exception:
                _log.warning("approve=%r raised; a person is asked", self.approve, exc_info=True)
                found = True
        if isinstance(found, str) and found:
            return found
        return ANYONE if found else None

    def stored(self) -> dict[str, Any]:
        """As the options of a tool in the store have it; InputError for a function, which no row can hold."""
        if callable(self.approve):
            raise InputError("approve= must be True or a group for a tool that another process serves")
        return {_OPTION: self._data(self.approve)}

    def in_profile(self) -> dict[str, Any]:
        """As a profile has it, which says of a function only that there is one."""
        return self._data(_FUNCTION if callable(self.approve) else self.approve)

    def _data(self, approve: Any) -> dict[str, Any]:
        return {"approve": approve, "seconds": self.seconds, "expired": self.expired}


@dataclass(frozen=True, slots=True)
class AskedApproval:
    """The question about one call, as the card of the call has it. `id` is what the turn waits for."""

    id: str
    group: str
    seconds: float | None = None
    expired: Expired = "reject"


def approval_rule(
    approve: Approve, seconds: float | None = None, expired: Expired = "reject"
) -> ApprovalRule | None:
    """The rule of a tool; None when nobody is asked. InputError names what cannot be."""
    if not (isinstance(approve, (bool, str)) or callable(approve)):
        raise InputError(f"approve is {approve!r}; expected True, the name of a group, or a function")
    if inspect.iscoroutinefunction(approve):
        raise InputError(f"approve is {approve!r}, a coroutine function; expected a plain one")
    if seconds is not None and not seconds > 0:
        raise InputError(f"approve_timeout is {seconds!r}; expected seconds, more than 0")
    if expired not in ("reject", "fail"):
        raise InputError(f"approve_expired is {expired!r}; expected reject or fail")
    return ApprovalRule(approve, seconds, expired) if approve else None


def profile_rules(rules: Mapping[str, ApprovalRule | None]) -> dict[str, Any]:
    """The rules of an agent's tools as its profile has them: a worker without them asks all the same."""
    return {name: rule.in_profile() for name, rule in rules.items() if rule is not None}


def read_rules(data: Any) -> dict[str, ApprovalRule]:
    """The rules of a profile."""
    found = data if isinstance(data, Mapping) else {}
    return {name: rule for name, each in found.items() if (rule := _read_rule(each)) is not None}


def rule_in_force(own: ApprovalRule | None, profile: ApprovalRule | None) -> ApprovalRule | None:
    """The rule of a call: that of the profile, which is as old as the turn; a function is the worker's own."""
    if profile is None or (own is not None and profile.approve is _every_call):
        return own
    return profile


def stored_rule(options: Mapping[str, Any]) -> ApprovalRule | None:
    """The rule in the options of a tool."""
    found = options.get(_OPTION)
    return _read_rule(found) if found else None


def _read_rule(found: Any) -> ApprovalRule | None:
    """A rule as it is stored; one that cannot be read asks about every call."""
    try:
        approve = _every_call if found["approve"] == _FUNCTION else found["approve"]
        return approval_rule(approve, found.get("seconds"), found.get("expired", "reject"))
    except (InputError, TypeError, KeyError, AttributeError):
        return ApprovalRule(True)


def _every_call(arguments: Mapping[str, Any]) -> bool:
    """In the place of a function that this worker does not have."""
    return True
