"""What an agent may use, as its definition says: limits by what they are for.

agent("guide", ..., budget={"turn": {"usd": 0.05, "steps": 4}, "session": {"tokens": 200_000}, "day": {"usd": 20}})
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, ValidationError, convert

from afl.kernel.errors import InputError
from afl.models.messages import MAX_TOKENS
from afl.models.usage import dollars

_BILLION = 1_000_000_000
SCOPES = ("turn", "session", "agent", "day")


class BudgetLimits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be used. `seconds` are those of calls of models, and of tools that are functions of the worker."""

    usd: float | None = None
    tokens: int | None = None
    steps: int | None = None
    seconds: float | None = None


class AgentBudget(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of each turn of an agent, of each session, of all its turns, and of those of a day (of UTC)."""

    turn: BudgetLimits | None = None
    session: BudgetLimits | None = None
    agent: BudgetLimits | None = None
    day: BudgetLimits | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """What was used, or is to be reserved. `usd` is in billionths; None: the price is not known."""

    usd: int | None = 0
    tokens: int = 0
    steps: int = 0
    ms: int = 0


@dataclass(frozen=True, slots=True)
class Account:
    """What a budget is kept for, and its limits."""

    name: str
    title: str
    limits: BudgetLimits

    def objection(self, model: str, spent: Used, used: Used, wanted: Used) -> str | None:
        """Why a call is refused, for people; None if it is not. `used` is what is spent or reserved."""
        limits = self.limits
        if limits.usd is not None:
            limit = f"the budget of {dollars(limits.usd)} USD {self.title}"
            if wanted.usd is None:
                return (
                    f"{limit} cannot be kept: the price of {model} is not known; give it a budget of tokens"
                )
            if not used.usd and wanted.usd > billionths(limits.usd):
                return self._too_small(limit, dollars(wanted.usd / _BILLION))
            if (used.usd or 0) + wanted.usd > billionths(limits.usd):
                reserved = (used.usd or 0) - (spent.usd or 0)
                also = f", {dollars(reserved / _BILLION)} reserved" if reserved else ""
                return (
                    f"{limit} is used up: {dollars((spent.usd or 0) / _BILLION)} spent{also}, "
                    f"{dollars(wanted.usd / _BILLION)} needed; {self._remedy}"
                )
        if limits.tokens is not None and not used.tokens and wanted.tokens > limits.tokens:
            return self._too_small(f"the budget of {limits.tokens} tokens {self.title}", str(wanted.tokens))
        if limits.tokens is not None and used.tokens + wanted.tokens > limits.tokens:
            reserved = used.tokens - spent.tokens
            also = f", {reserved} reserved" if reserved else ""
            return (
                f"the budget of {limits.tokens} tokens {self.title} is used up: "
                f"{spent.tokens} spent{also}, {wanted.tokens} needed; {self._remedy}"
            )
        if limits.steps is not None and used.steps + wanted.steps > limits.steps:
            return f"the budget of {limits.steps} steps {self.title} is used up; {self._remedy}"
        if limits.seconds is not None and used.ms >= limits.seconds * 1000:
            return self.out_of_time
        return None

    def _too_small(self, limit: str, needed: str) -> str:
        reserved = f"max_tokens of llm_config ({MAX_TOKENS} if not set) is reserved for its reply"
        return (
            f"{limit} is too small for one call, which may need {needed}: {reserved}; "
            f"{self._remedy}, or set a smaller max_tokens"
        )

    @property
    def _remedy(self) -> str:
        """What a person can do about a limit that is reached."""
        scope = self.name.partition(":")[0]
        if scope == "session":
            return "give the session a larger budget, or begin another one"
        if scope == "agent":
            return "give the agent a larger budget"
        later = ", or ask again when the day is over" if scope == "day" else ""
        return f"give the agent a larger budget per {scope}{later}"

    @property
    def out_of_time(self) -> str:
        return f"the budget of {self.limits.seconds:g} seconds {self.title} is used up; {self._remedy}"


def billionths(usd: float) -> int:
    """An amount of US dollars as it is stored."""
    return round(usd * _BILLION)


def read_limits(data: Any, where: str = "budget") -> BudgetLimits:
    """Limits; InputError names what is wrong with them."""
    return _checked(_converted(data, BudgetLimits, where), where)


def read_budget(data: Any) -> AgentBudget:
    """The budget of an agent; InputError names what is wrong with it."""
    _check_mapping(data, "budget")
    given = {
        scope: read_limits(limits, f"budget: {scope}") if scope in SCOPES and limits is not None else limits
        for scope, limits in data.items()
    }
    budget: AgentBudget = _converted(given, AgentBudget, "budget")
    return budget


def _converted(data: Any, kind: Any, where: str) -> Any:
    _check_mapping(data, where)
    try:
        return convert(dict(data), kind)
    except ValidationError as error:
        known = ", ".join(kind.__struct_fields__)
        raise InputError(f"{where}: {error}; known are {known}") from error


def _check_mapping(data: Any, where: str) -> None:
    if not isinstance(data, Mapping):
        raise InputError(f"{where} is {data!r}; expected limits by name")


def _checked(limits: BudgetLimits, where: str) -> BudgetLimits:
    for name in BudgetLimits.__struct_fields__:
        value = getattr(limits, name)
        if value is not None and not 0 <= value < 1e9:
            raise InputError(f"{where}: {name} is {value}; expected at least 0")
    return limits
