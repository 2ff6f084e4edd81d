"""Accounts in the store: reserve what a call may use at most, settle what it did use. Over an open transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction, queries
from afl.kernel.errors import AgentFlowError
from afl.turns.budgets.limits import Account, Used

Q = queries("afl.turns.store", "sql/budgets")
RESERVATION_MS = 15 * 60 * 1000  # longer than any call may take
KEPT_DAYS = 31
_LIMIT = 1_000  # rows at once: other writers wait meanwhile
_DAY_MS = 86_400_000


class BudgetSpent(
    AgentFlowError, hint="Give the agent or the session a larger budget, or ask again tomorrow (UTC)."
):
    """A turn may not use what its next call needs."""


def reserve(
    tx: Transaction, project: str, accounts: Sequence[Account], entry: str, model: str, wanted: Used
) -> int | None:
    """Set aside what a call may use; how many milliseconds it may take (None: as many as it likes).

    BudgetSpent when what is spent, reserved and wanted is together more than a limit: nothing is written then. Each
    account is locked, in the order of names, so calls of other processes wait. The same `entry` again replaces its
    reservation: that of a call whose worker died is not counted twice.
    """
    left: list[int] = []
    for account in sorted(accounts, key=lambda each: each.name):
        where = {"project": project, "account": account.name}
        tx.run(Q.open_account, **where)
        tx.one(Q.lock_account, **where)
        tx.run(Q.end_reservations, **where, entry=entry)
        spent, used = _used(tx, where)
        objection = account.objection(model, spent, used, wanted)
        if objection is not None:
            raise BudgetSpent(objection)
        if account.limits.seconds is not None:
            left.append(int(account.limits.seconds * 1000) - used.ms)
        tx.run(
            Q.reserve,
            **where,
            entry=entry,
            usd=wanted.usd or 0,
            tokens=wanted.tokens,
            steps=wanted.steps,
            lease_ms=RESERVATION_MS,
        )
    return min(left, default=None)


def settle(tx: Transaction, project: str, accounts: Iterable[Account], entry: str, used: Used) -> None:
    """End the reservation of a call, and count what it used."""
    for account in sorted(accounts, key=lambda each: each.name):
        where = {"project": project, "account": account.name}
        tx.run(Q.spend, **where, usd=used.usd or 0, tokens=used.tokens, steps=used.steps, ms=used.ms)
        tx.run(Q.end_reservation, **where, entry=entry)


def spent_of(tx: Transaction, project: str, names: Sequence[str]) -> dict[str, Used]:
    """What was spent of these accounts; those that nothing was spent of are left out."""
    rows = tx.all(Q.spent, project=project, accounts=list(names)) if names else []
    return {
        row["account"]: Used(int(row["usd"]), int(row["tokens"]), int(row["steps"]), int(row["ms"]))
        for row in rows
    }


def prune_budgets(tx: Transaction, kept_days: int = KEPT_DAYS) -> int:
    """Delete the accounts of turns that ended so many days ago, and those of such days; how many rows.

    Nothing can be spent on them any more. What a session and an agent have spent stays: those limits have no end.
    """
    today = datetime.fromtimestamp(wall_ms() / 1000, UTC).date()
    first = (today - timedelta(days=kept_days)).isoformat()
    turns = tx.run(Q.prune_turns, older_ms=kept_days * _DAY_MS, limit=_LIMIT)
    return turns + tx.run(Q.prune_days, first=first, limit=_LIMIT)


def _used(tx: Transaction, where: dict[str, str]) -> tuple[Used, Used]:
    """What is spent, and that with what is reserved."""
    row = tx.one(Q.used, **where)
    assert row is not None  # a sum
    spent = Used(int(row["spent_usd"]), int(row["spent_tokens"]))
    return spent, Used(int(row["usd"]), int(row["tokens"]), int(row["steps"]), int(row["ms"]))
