"""Accounts that nothing can be spent on any more are deleted, so that their table does not grow forever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from afl.kernel.clock import wall_ms
from afl.kernel.database import Transaction
from afl.turns.budgets.accounts import Q

KEPT_DAYS = 31
_LIMIT = 1_000  # rows at once: other writers wait meanwhile
_DAY_MS = 86_400_000


def prune_budgets(tx: Transaction, kept_days: int = KEPT_DAYS) -> int:
    """Delete the accounts of turns that ended so many days ago, and those of such days; how many rows.

    What a session and an agent have spent stays: those limits have no end.
    """
    today = datetime.fromtimestamp(wall_ms() / 1000, UTC).date()
    first = (today - timedelta(days=kept_days)).isoformat()
    turns = tx.run(Q.prune_turns, older_ms=kept_days * _DAY_MS, limit=_LIMIT)
    return turns + tx.run(Q.prune_days, first=first, limit=_LIMIT)
