"""What a store must do: the contract of all four stores, in prose.

`PersistenceAPI` is the union of small protocols. Rules that hold for every method of every store:

* Copies go in and copies come out; changing a returned object changes nothing stored.
* Values are plain JSON data (`afl.kernel.codec`); anything else is refused with PayloadError and nothing is written.
* `commit` and `finish` are atomic: all of it is stored, or nothing. With a fence they raise FencedError (commit) or
  answer False (finish) when the caller no longer holds what it writes to, and then nothing is stored.
* A claim is atomic: no two callers receive the same task, and at most one task of a step is running.
* Times that decide (leases, locks, deadlines, delays) are the store's own, never the caller's.
* A commit notifies: `tasks:<list>` when a task may be claimed, `runs` when a run needs an evaluator, `run:<id>` when a
  run is over or paused, `logs:<id>` when agents write to its log, `elsewhere` when there is work for another
  side, `cancel` when work is taken away from those who do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import HistoryStore
from afl.runtime.persistence.inspection import CensusStore, InspectionStore, PulseStore
from afl.runtime.persistence.run_lists import RunListStore, SearchStore
from afl.runtime.persistence.runs import (
    ChildRunStore,
    ControlStore,
    RetentionStore,
    RunnerStore,
    RunStore,
)
from afl.runtime.persistence.servers import FlowStore, LockStore, LogStore, ServerStore
from afl.runtime.persistence.signals import SignalStore
from afl.runtime.persistence.steps import EventStore, PublishedStore, StepStore
from afl.runtime.persistence.tasks import AttemptStore, ClaimStore, ElsewhereStore, TaskStore, TimerStore

if TYPE_CHECKING:
    from afl.kernel.errors import AgentFlowError
    from afl.kernel.file_lock import LockHolder
    from afl.kernel.notify import Subscription
    from afl.kernel.presence import Life


@runtime_checkable
class PersistenceAPI(
    StepStore,
    EventStore,
    PublishedStore,
    HistoryStore,
    TaskStore,
    AttemptStore,
    ClaimStore,
    ElsewhereStore,
    TimerStore,
    SignalStore,
    RunStore,
    RunListStore,
    SearchStore,
    ChildRunStore,
    RunnerStore,
    ControlStore,
    RetentionStore,
    FlowStore,
    ServerStore,
    LockStore,
    LogStore,
    PulseStore,
    CensusStore,
    InspectionStore,
    Protocol,
):
    """Everything the runtime asks of a store."""

    lease_ms: int  # how long a claim of a task lasts without being renewed
    max_deliveries: int  # how many owners may die on a task
    doorbell: str  # how other processes are notified of a commit: the setting AFL_DOORBELL
    capabilities: ClassVar[frozenset[str]]  # of concurrency, schedules, budgets, retention

    def commit(self, changes: IterationChanges) -> None:
        """Store the changes atomically; FencedError, and nothing stored, if `changes.run` lost its epoch.

        A committed task wakes whoever listens for its task list; a committed run, whoever waits for it.
        """

    def commit_all(self, batch: Sequence[IterationChanges]) -> list[AgentFlowError | None]:
        """`commit` for several runs in as few round trips as can be.

        Each is stored or not by itself: for each what `commit` would have raised (FencedError, PayloadError,
        StoreConflict), or None.
        """

    @property
    def run_lease_ms(self) -> int:
        """How long an evaluator keeps a run without renewing it."""

    @property
    def owner_id(self) -> str:
        """The name under which this process holds runs and tasks."""

    def subscribe(self, topics: Iterable[str], early: Iterable[str] = ()) -> Subscription:
        """A subscription for what is committed from now on, here and in other processes; see `Notifier.subscribe`."""

    def describe(self, owner: str) -> str:
        """An owner in words: its process and host, where they are known."""

    def life(self, owner: str) -> Life:
        """What can be said about an owner's process."""

    def write_lock(self) -> LockHolder | None:
        """The process that keeps all others from writing, if there is one; asks, and waits for nothing."""

    def now(self) -> int:
        """The store's clock, by which leases and deadlines end; milliseconds."""

    def close(self) -> None:
        """Release connections; held runs and tasks go to others when their lease ends."""
