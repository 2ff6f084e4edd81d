"""What every store of ours does alike: the policy of the contract, over the methods that a backend has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol

from afl.kernel.clock import wall_ms
from afl.kernel.errors import AgentFlowError, FencedError, PayloadError, StoreConflict
from afl.kernel.lease import LEASE_MS, MAX_DELIVERIES, RUN_LEASE_MS
from afl.kernel.notify import Notifier, Subscription
from afl.runtime.entities import (
    LogDefinition,
    TaskDefinition,
)
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import LONGEST_DETAIL, HistoryEvent, history_text
from afl.runtime.persistence.servers import LogStore
from afl.runtime.persistence.steps import StepStore
from afl.runtime.persistence.tasks import ClaimStore
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId


class _Committing(Protocol):
    def commit(self, changes: IterationChanges) -> None: ...


class StoreBase(ABC):
    """The methods of PersistenceAPI that need nothing of a backend but its others."""

    lease_ms: int = LEASE_MS
    max_deliveries: int = MAX_DELIVERIES
    doorbell: str = "auto"

    @property
    def run_lease_ms(self) -> int:
        """How long an evaluator keeps a run without renewing it."""
        return min(self.lease_ms, RUN_LEASE_MS)

    @cached_property
    def notifier(self) -> Notifier:
        """The notifier; it has no thread before somebody listens."""
        return self._new_notifier()

    @abstractmethod
    def _new_notifier(self) -> Notifier:
        """The notifier that `doorbell` asks for."""

    def _close_notifier(self) -> None:
        if "notifier" in vars(self):
            self.notifier.close()
            del self.notifier

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        """A subscription for what is committed from now on."""
        return self.notifier.subscribe(topics, early)

    def claim_task(
        self: ClaimStore,
        task_names: list[str],
        task_list: str = "default",
        *,
        owner: str = "",
        lease_ms: int = 0,
        lock_ms: int = 0,
        while_alive: bool = False,
    ) -> TaskDefinition | None:
        claimed = self.claim_tasks(
            task_names,
            task_list,
            limit=1,
            owner=owner,
            lease_ms=lease_ms,
            lock_ms=lock_ms,
            while_alive=while_alive,
        )
        return claimed[0] if claimed else None

    def commit_all(self: _Committing, batch: Sequence[IterationChanges]) -> list[AgentFlowError | None]:
        return [_refusal(self, changes) for changes in batch]

    def save_log(self: LogStore, log: LogDefinition) -> None:
        self.save_logs([log])

    def get_blocks_by_step(self: StepStore, step_id: StepId) -> list[StepDefinition]:
        return [step for step in self.get_steps_by_container(step_id) if step.is_block]


def _refusal(store: _Committing, changes: IterationChanges) -> AgentFlowError | None:
    try:
        store.commit(changes)
    except (FencedError, PayloadError, StoreConflict) as error:
        return error
    return None


def run_event_text(kind: str, reason: str = "") -> str:
    """That something happened to a run itself, as its history has it."""
    return history_text([HistoryEvent(kind, wall_ms(), detail=reason[:LONGEST_DETAIL])])
