"""What a worker has in hand. Its leases are renewed for as long as there is anything."""

from __future__ import annotations

from afl.runtime.in_hand import Holding
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.intake import Intake
from afl.runtime.worker.lease_keeper import LeaseKeeper
from afl.runtime.worker.stepless import Stepless
from afl.runtime.worker.terms import Terms
from afl.runtime.worker.workbench import Workbench


class Hands:
    """Tasks from their claim until their answer is stored, and the runs that are evaluated."""

    def __init__(
        self,
        store: PersistenceAPI,
        terms: Terms,
        intake: Intake,
        bench: Workbench,
        evaluations: Evaluations,
        stepless: Stepless,
    ) -> None:
        self._intake = intake
        self._bench = bench
        self._evaluations = evaluations
        self._stepless = stepless
        self.keeper = LeaseKeeper(
            store, terms.lock_ms, every_ms=terms.lock_every_ms, holding=self.holding, lost=bench.take_away
        )

    def mind(self) -> None:
        """Renew leases as long as anything is held, and only then."""
        held = self._intake.system or self._bench.running or self._evaluations.busy or self._stepless
        self.keeper.want(bool(held))

    def holding(self) -> Holding:
        """What it is, for the thread that renews it."""
        others = [
            *self._evaluations.pending_claims(),
            *self._intake.system,
            *self._stepless.tasks(),
        ]
        claims = self._bench.claims() | {(task.uuid, task.epoch) for task in others}
        return Holding(frozenset(claims), self._evaluations.held_runs)
