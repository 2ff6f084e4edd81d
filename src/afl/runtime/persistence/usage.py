"""What models cost a run: records of their use, and budgets that a run cannot pass.

A budget is kept by reserving before a call what the call may cost at most, and settling after it what it did cost. A
reservation that would lead over the budget is refused; the run then waits for a larger one. A reservation whose maker
died ends by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from afl.kernel.errors import AgentFlowError, InputError
from afl.models.exchange import Exchange
from afl.models.usage import Usage, dollars

RESERVATION_MS = 15 * 60 * 1000  # longer than any call may take; the proof of a death ends it sooner


class BudgetExceeded(
    AgentFlowError, hint="`afl unpause RUN --budget-usd N` (or --budget-tokens N) continues the run."
):
    """A run may not spend what its next call needs. This is not a failure: it can continue with a larger budget."""

    def __init__(self, workflow_id: str, reason: str) -> None:
        super().__init__(reason)
        self.workflow_id = workflow_id


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One call to a model. `cost_usd` is None when its price is not known; `time` is the wall clock's, in ms."""

    workflow_id: str
    step_id: str
    task_id: str
    model: str
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    time: int = 0

    @property
    def usage(self) -> Usage:
        """Its tokens."""
        return Usage(self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens)


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A call with what was said in it; `exchange` is None if that was not kept, or is no longer."""

    record: UsageRecord
    exchange: Exchange | None = None


@dataclass(frozen=True, slots=True)
class UsageSum:
    """What a model used on one day (of UTC, in days since 1970) in runs of a workflow.

    `workflow` is empty for runs that are gone. `unpriced` counts calls that are not in `cost_usd`.
    """

    day: int
    model: str
    workflow: str
    calls: int
    tokens: int
    cost_usd: float
    unpriced: int


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """Several calls together; `unpriced` is how many of them are not in `cost_usd`, their price being unknown."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    unpriced: int = 0

    def adding(self, record: UsageRecord) -> UsageTotal:
        """With one more call."""
        return UsageTotal(
            self.calls + 1,
            self.usage + record.usage,
            self.cost_usd + (record.cost_usd or 0.0),
            self.unpriced + (record.cost_usd is None),
        )


def total(records: Iterable[UsageRecord]) -> UsageTotal:
    """All of them together."""
    whole = UsageTotal()
    for record in records:
        whole = whole.adding(record)
    return whole


def by_step(records: Iterable[UsageRecord]) -> dict[str, UsageTotal]:
    """Together per step, in the order of their first calls."""
    steps: dict[str, UsageTotal] = {}
    for record in records:
        steps[record.step_id] = steps.get(record.step_id, UsageTotal()).adding(record)
    return steps


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use, in dollars, in tokens or in both, and how much of it is spent and reserved."""

    workflow_id: str
    usd: float | None = None
    tokens: int | None = None
    spent_usd: float = 0.0
    spent_tokens: int = 0
    reserved_usd: float = 0.0
    reserved_tokens: int = 0

    def objection(self, model: str, usd: float | None, tokens: int) -> str | None:
        """Why a call that may cost so much is refused, for people; None if it is not."""
        if self.usd is not None:
            limit = f"budget of {dollars(self.usd)} USD"
            if usd is None:
                return (
                    f"{limit} cannot be kept: the price of {model} is not known; give it a budget of tokens"
                )
            if self.spent_usd + self.reserved_usd + usd > self.usd + 1e-9:
                reserved = f", {dollars(self.reserved_usd)} reserved" if self.reserved_usd else ""
                return f"{limit} is used up: {dollars(self.spent_usd)} spent{reserved}, {dollars(usd)} needed"
        if self.tokens is not None and self.spent_tokens + self.reserved_tokens + tokens > self.tokens:
            reserved = f", {self.reserved_tokens} reserved" if self.reserved_tokens else ""
            spent = f"{self.spent_tokens} spent{reserved}, {tokens} needed"
            return f"budget of {self.tokens} tokens is used up: {spent}"
        return None


def check_limits(usd: float | None, tokens: int | None) -> None:
    """InputError for limits that are none."""
    if usd is None and tokens is None:
        raise InputError("a budget needs a limit: dollars, tokens or both")
    if usd is not None and not 0 <= usd < 1e9:
        raise InputError(f"a budget of {usd} USD is none; expected an amount of at least 0")
    if tokens is not None and tokens < 0:
        raise InputError(f"a budget of {tokens} tokens is none; expected at least 0")


class BudgetStore(Protocol):
    """Budgets of runs. A run without one may use what it likes. Only SQL stores have this."""

    def set_budget(self, workflow_id: str, *, usd: float | None = None, tokens: int | None = None) -> None:
        """Give a run a budget, or another one; the run need not exist yet. What it has used counts."""

    def get_budget(self, workflow_id: str) -> Budget | None:
        """The budget with what is spent and reserved now, or None."""

    def reserve(
        self,
        workflow_id: str,
        *,
        model: str,
        usd: float | None,
        tokens: int,
        lease_ms: int = RESERVATION_MS,
    ) -> str | None:
        """Set aside what a call may cost at most (`usd` None: not known); None for a run without a budget.

        Atomic: BudgetExceeded when spent, reserved and asked are together more than the limit. Reservations whose lease
        ended by the store's clock, or whose maker is proven dead, do not count.
        """

    def settle(
        self, reservation: str | None, record: UsageRecord | None, exchange: Exchange | None = None
    ) -> None:
        """The call is over: end its reservation and record what it used (None: nothing), in one transaction."""


class UsageStore(Protocol):
    """The use of models, by run."""

    @property
    def budgets(self) -> BudgetStore | None:
        """The budgets of the same store; None where there are none."""

    def record_usage(self, record: UsageRecord, exchange: Exchange | None = None) -> None:
        """Append a record, with what was said if that is to be kept."""

    def get_usage(self, workflow_id: str) -> list[UsageRecord]:
        """The records of a run, in the order in which they were made."""

    def get_calls(self, workflow_id: str, step_id: str, limit: int) -> list[ModelCall]:
        """The first calls of a step with what was said in them, in the order in which they were made."""

    def sum_usage(self, since: int) -> list[UsageSum]:
        """What was used at a time or later, by day, model and workflow."""

    def sum_usage_by_tag(self, since: int, limit: int) -> dict[str, float]:
        """What was spent at a time or later in runs with a tag (`key=value`), in US dollars: the largest ones."""

    def forget_exchanges(self, before: int, limit: int) -> int:
        """Remove what was said in up to so many calls before a time; what they used stays. How many there were."""
