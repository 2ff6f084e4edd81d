"""Whom an agent may ask for help: the `delegation_policy` of its profile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel.errors import InputError


@dataclass(frozen=True, slots=True)
class DelegationPolicy:
    """`profiles` None: all of them. `tags` None: whatever tags; else one of these must be there."""

    profiles: frozenset[str] | None = None
    tags: frozenset[str] | None = None

    def refusal(self, profile: str, tags: Iterable[str]) -> str | None:
        """Why a target is not allowed; None if it is."""
        if self.profiles is not None and profile.lower() not in self.profiles:
            allowed = ", ".join(sorted(self.profiles)) or "none"
            return f"the delegation policy does not allow the profile {profile!r}; allowed are: {allowed}"
        if self.tags is not None and self.tags.isdisjoint(tags):
            return (
                f"the delegation policy asks for one of the tags {', '.join(sorted(self.tags)) or '(none)'}"
            )
        return None


def policy_of(profile: Mapping[str, Any]) -> DelegationPolicy | None:
    """The policy in a profile; None when it has none, and then nothing may be delegated."""
    policy = profile.get("delegation_policy")
    if policy is None:
        return None
    if not isinstance(policy, Mapping):
        raise InputError(f"delegation_policy is {policy!r}; expected target_profiles and target_tags")
    profiles = _names(policy, "target_profiles")
    return DelegationPolicy(
        None if profiles is None else frozenset(name.lower() for name in profiles),
        _names(policy, "target_tags"),
    )


def _names(policy: Mapping[str, Any], key: str) -> frozenset[str] | None:
    names = policy.get(key)
    if names is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InputError(f"delegation_policy.{key} is {names!r}; expected a list of names, or null for all")
    return frozenset(names)
