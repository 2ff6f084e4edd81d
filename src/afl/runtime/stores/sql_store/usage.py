"""The use of models and budgets in SQL: tables of their own, made when somebody first asks for them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

from afl.kernel.database import Database, Row, Transaction
from afl.kernel.ids import random_id
from afl.kernel.presence import Life
from afl.models.exchange import Exchange
from afl.runtime.persistence.usage import (
    RESERVATION_MS,
    Budget,
    BudgetExceeded,
    ModelCall,
    UsageRecord,
    UsageSum,
    check_limits,
)
from afl.runtime.stores.sql_store.usage_tables import SCHEMA, Q

_BILLION = 1_000_000_000
_COLUMNS = [field.name for field in fields(UsageRecord) if field.name != "cost_usd"]


class SqlUsage:
    """The UsageStore and BudgetStore protocols."""

    def __init__(self, database: Database) -> None:
        self._database = database
        database.ensure(SCHEMA)

    @property
    def budgets(self) -> SqlUsage:
        return self

    # -- usage ------------------------------------------------------------------------------------------------

    def record_usage(self, record: UsageRecord, exchange: Exchange | None = None) -> None:
        self._database.write(lambda tx: _insert(tx, record, exchange))

    def get_usage(self, workflow_id: str) -> list[UsageRecord]:
        return [_record(row) for row in self._database.select(Q.get_usage, workflow_id=workflow_id)]

    def get_calls(self, workflow_id: str, step_id: str, limit: int) -> list[ModelCall]:
        rows = self._database.select(Q.get_calls, workflow_id=workflow_id, step_id=step_id, limit=limit)
        return [
            ModelCall(_record(row), Exchange.decode(row["exchange"]) if row["exchange"] else None)
            for row in rows
        ]

    def sum_usage(self, since: int) -> list[UsageSum]:
        return [
            UsageSum(
                day=int(row["day"]),
                model=row["model"],
                workflow=row["workflow"],
                calls=row["calls"],
                tokens=int(row["tokens"]),
                cost_usd=int(row["cost"]) / _BILLION,
                unpriced=row["unpriced"],
            )
            for row in self._database.select(Q.sum_usage, since=since)
        ]

    def sum_usage_by_tag(self, since: int, limit: int) -> dict[str, float]:
        rows = self._database.select(Q.sum_usage_by_tag, since=since, limit=limit)
        return {row["tag"]: int(row["cost"]) / _BILLION for row in rows}

    def forget_exchanges(self, before: int, limit: int) -> int:
        return len(self._database.atomic(Q.forget_exchanges, before=before, limit=limit))

    # -- budgets ----------------------------------------------------------------------------------------------

    def set_budget(self, workflow_id: str, *, usd: float | None = None, tokens: int | None = None) -> None:
        check_limits(usd, tokens)
        limits = {"usd": _stored(usd), "tokens": tokens}
        self._database.execute(Q.set_budget, workflow_id=workflow_id, **limits)

    def get_budget(self, workflow_id: str) -> Budget | None:
        return self._database.read(lambda tx: _budget(tx, workflow_id))

    def reserve(
        self,
        workflow_id: str,
        *,
        model: str,
        usd: float | None,
        tokens: int,
        lease_ms: int = RESERVATION_MS,
    ) -> str | None:
        if not self._database.select(Q.has_budget, workflow_id=workflow_id):
            return None  # most runs: nothing is written for them

        wanted = _Wanted(workflow_id, self._database.presence.id, model, usd, tokens, lease_ms)
        reservation, objection = self._database.write(wanted.reserve)
        if objection is not None and self._end_those_of_the_dead(workflow_id):
            reservation, objection = self._database.write(wanted.reserve)
        if objection is not None:
            raise BudgetExceeded(workflow_id, objection)
        return reservation

    def _end_those_of_the_dead(self, workflow_id: str) -> bool:
        """End the reservations of processes that are proven dead; whether there were any."""
        rows = self._database.select(Q.reservation_owners, workflow_id=workflow_id)
        presence = self._database.presence
        dead = [row["owner"] for row in rows if presence.proof(row["owner"]) is Life.DEAD]
        if not dead:
            return False
        ended = {"workflow_id": workflow_id, "owners": dead}
        return self._database.execute(Q.end_reservations_of, **ended) > 0

    def settle(
        self, reservation: str | None, record: UsageRecord | None, exchange: Exchange | None = None
    ) -> None:
        if reservation is None and record is None:
            return

        def work(tx: Transaction) -> None:
            if reservation is not None:
                tx.run(Q.end_reservation, id=reservation)
            if record is not None:
                _insert(tx, record, exchange)

        self._database.write(work)


@dataclass(frozen=True)
class _Wanted:
    """A reservation that somebody asks for."""

    workflow_id: str
    owner: str
    model: str
    usd: float | None
    tokens: int
    lease_ms: int

    def reserve(self, tx: Transaction) -> tuple[str | None, str | None]:
        """A reservation, or why there is none. The budget's row is locked: reservations of a run queue on it."""
        if tx.one(Q.lock_budget, workflow_id=self.workflow_id) is None:
            return None, None
        budget = _budget(tx, self.workflow_id)  # after the lock, to see what those before us reserved
        assert budget is not None
        objection = budget.objection(self.model, self.usd, self.tokens)
        if objection is not None:
            return None, objection
        tx.run(Q.end_old_reservations, workflow_id=self.workflow_id)
        reservation = random_id()
        tx.run(
            Q.insert_reservation,
            id=reservation,
            workflow_id=self.workflow_id,
            owner=self.owner,
            usd=_stored(self.usd) or 0,
            tokens=self.tokens,
            lease_ms=self.lease_ms,
        )
        return reservation, None


def _insert(tx: Transaction, record: UsageRecord, exchange: Exchange | None) -> None:
    cost, said = _stored(record.cost_usd), None if exchange is None else exchange.encode()
    tx.run(Q.insert_usage, **asdict(record), cost=cost, exchange=said)
    if record.cost_usd:
        tx.run(Q.add_cost, workflow_id=record.workflow_id, cost=cost)


def _record(row: Row) -> UsageRecord:
    return UsageRecord(**{name: row[name] for name in _COLUMNS}, cost_usd=_dollars(row["cost"]))


def _budget(tx: Transaction, workflow_id: str) -> Budget | None:
    row = tx.one(Q.get_budget, workflow_id=workflow_id)
    if row is None:
        return None
    return Budget(
        workflow_id=workflow_id,
        usd=_dollars(row["usd"]),
        tokens=row["tokens"],
        spent_usd=int(row["spent_usd"]) / _BILLION,  # PostgreSQL sums to a numeric
        spent_tokens=int(row["spent_tokens"]),
        reserved_usd=int(row["reserved_usd"]) / _BILLION,
        reserved_tokens=int(row["reserved_tokens"]),
    )


def _stored(usd: float | None) -> int | None:
    return None if usd is None else round(usd * _BILLION)


def _dollars(stored: int | None) -> float | None:
    return None if stored is None else stored / _BILLION
