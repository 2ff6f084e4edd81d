"""What models used in a run, and what they may use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import Budget, UsageRecord, UsageTotal, check_limits
from afl.runtime.stores.usage_store import budget_store, usage_store


def get_usage(store: PersistenceAPI, run: str) -> list[UsageRecord]:
    """The calls to models in a run; none where the store keeps no record of them."""
    kept = usage_store(store)
    return kept.get_usage(run) if kept is not None else []


def usage_by(records: Iterable[UsageRecord], places: Mapping[str, str]) -> dict[str, UsageTotal]:
    """Use by place of the program; `places` says where each step stands."""
    found: dict[str, UsageTotal] = {}
    for record in records:
        place = places.get(record.step_id)
        if place is not None:
            found[place] = found.get(place, UsageTotal()).adding(record)
    return found


def get_budget(store: PersistenceAPI, run: str) -> Budget | None:
    """The budget of a run, if it has one."""
    return budget_store(store).get_budget(run) if "budgets" in store.capabilities else None


def set_budget(
    store: PersistenceAPI, run: str, *, usd: float | None = None, tokens: int | None = None
) -> None:
    """Give a run a budget, or another one. InputError for limits that are none."""
    check_limits(usd, tokens)
    budget_store(store).set_budget(run, usd=usd, tokens=tokens)
