"""Runs under any order of fetches, reports, silences, cancels and repeated shipments, against a simple model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from hypothesis import given
from hypothesis import strategies as st
from support.fleet_stores import LEASE_MS, START_MS, Keeper
from support.properties import tries

from afl.fleet.messages import RunRecord, Status
from afl.kernel.database import connect

AGENTS = ("x", "y", "z")
ENDS = (Status.COMPLETED, Status.FAILED, Status.CANCELED, Status.CRASHED)


@dataclass
class ModelRun:
    """What the store should hold of a run."""

    requeues: int
    status: Status = Status.PENDING
    holder: str | None = None
    epoch: int = 0
    until: int = 0
    requeued: int = 0
    canceled: bool = False

    @property
    def is_queued(self) -> bool:
        return self.status is Status.PENDING and self.holder is None

    def end(self, status: Status) -> None:
        self.status, self.holder = status, None


@dataclass
class ModelAgent:
    """What an agent believes: the runs in its hands, and all it ever had to tell."""

    hands: dict[str, int] = field(default_factory=dict)
    past: list[tuple[str, int]] = field(default_factory=list)
    told: list[RunRecord] = field(default_factory=list)


class RunMachine:
    """Does one thing after another to the store and to the model, and compares."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.seen: Counter[str] = Counter()
        self.keeper = Keeper(connect("memory://"))
        self.runs: dict[str, ModelRun] = {}
        self.agents = {name: ModelAgent() for name in AGENTS}

    def enqueue(self) -> None:
        requeues = self.random.choice((0, 0, 0, 1, 2))
        run_id = f"r{len(self.runs)}"
        assert self.keeper.enqueue(run_id, f"w{run_id}", requeues=requeues)
        self.runs[run_id] = ModelRun(requeues)

    def enqueue_again(self) -> None:
        run_id = self.random.choice(sorted(self.runs))
        assert not self.keeper.enqueue(run_id, f"w{run_id}")

    def claim(self) -> None:
        """Now and then the answer never reaches the agent, which asks again."""
        name = self.random.choice(AGENTS)
        expected = next((run_id for run_id, run in self.runs.items() if run.is_queued), None)
        given = self.keeper.claim(name)
        assert (given and given["run_id"]) == expected
        if given is None or expected is None:
            return
        run = self.runs[expected]
        run.holder, run.until = name, self.keeper.now + LEASE_MS
        run.epoch += 1
        assert given["epoch"] == run.epoch
        if self.random.random() < 0.2:
            held = [run_id for run_id, one in self.runs.items() if one.holder == name and run_id != expected]
            again = self.keeper.claim(name, held)
            run.epoch += 1
            assert again and (again["run_id"], again["epoch"]) == (expected, run.epoch)
        self.agents[name].hands[expected] = run.epoch

    def report(self) -> None:
        """Of a run in hand, or of one that was in hand once: it may have gone to somebody else."""
        name = self.random.choice(AGENTS)
        agent = self.agents[name]
        known = sorted({*agent.hands.items(), *agent.past})
        if not known:
            return
        run_id, epoch = self.random.choice(known)
        status = Status.RUNNING if self.random.random() < 0.7 else self.random.choice(ENDS)
        seq = len(agent.told) + 1
        agent.told.append(RunRecord(seq=seq, run_id=run_id, epoch=epoch, status=status, at=START_MS))
        assert self.keeper.ship(name, *agent.told[-1:]) == seq
        if status.is_final and agent.hands.get(run_id) == epoch:
            agent.past.append((run_id, agent.hands.pop(run_id)))
        self._expect_report(name, run_id, epoch, status)

    def ship_again(self) -> None:
        name = self.random.choice(AGENTS)
        told = self.agents[name].told
        assert self.keeper.ship(name, *told[-self.random.randint(1, 5) :]) == len(told)

    def beat(self) -> None:
        name = self.random.choice(AGENTS)
        agent = self.agents[name]
        commands = self.keeper.beat(name, *agent.hands.items())
        lost = [run_id for run_id, epoch in agent.hands.items() if self.runs[run_id].epoch != epoch]
        assert commands.lost == lost
        for run_id in lost:
            agent.past.append((run_id, agent.hands.pop(run_id)))
        for run_id in agent.hands:
            run = self.runs[run_id]
            if run.status is Status.CRASHED:
                run.status, run.holder = Status.RUNNING, name
            if run.holder is not None:
                run.until = self.keeper.now + LEASE_MS
        told = [run_id for run_id in agent.hands if self._is_to_cancel(self.runs[run_id])]
        assert commands.cancel == told

    def time_passes(self) -> None:
        self.keeper.now += self.random.choice((1, LEASE_MS // 2, LEASE_MS + 1))
        due = {run_id for run_id, run in self.runs.items() if run.holder and run.until < self.keeper.now}
        assert {expired.run_id for expired in self.keeper.expire()} == due
        for run_id in due:
            self._expect_loss(self.runs[run_id])

    def cancel(self) -> None:
        run_id = self.random.choice(sorted(self.runs))
        self.keeper.cancel(run_id)
        run = self.runs[run_id]
        if not run.status.is_final:
            run.canceled = True
            if run.holder is None:
                run.end(Status.CANCELED)

    def the_store_is_as_the_model(self) -> None:
        for run_id, run in self.runs.items():
            stored = self.keeper.run(run_id)
            assert (stored.status, stored.epoch, stored.attempt) == (run.status, run.epoch, run.requeued + 1)

    def _expect_report(self, name: str, run_id: str, epoch: int, status: Status) -> None:
        run = self.runs[run_id]
        self.seen[f"{status} on {run.status}"] += epoch == run.epoch
        settled = run.status.is_final and run.status is not Status.CRASHED
        if epoch != run.epoch or settled:
            return
        if status is Status.CRASHED:
            if run.status is not Status.CRASHED:
                self._expect_crash(run)
        elif status.is_final:
            run.end(status)
        else:
            run.status, run.holder = Status.RUNNING, name
            run.until = max(run.until, self.keeper.now + LEASE_MS)

    def _expect_loss(self, run: ModelRun) -> None:
        self.seen[f"lost {run.status}"] += 1
        if run.status is Status.RUNNING:
            self._expect_crash(run)
        elif run.canceled:
            run.end(Status.CANCELED)
        else:
            self._expect_requeue(run)

    def _expect_crash(self, run: ModelRun) -> None:
        if run.canceled:
            run.end(Status.CANCELED)
        elif run.requeued < run.requeues:
            run.requeued += 1
            self._expect_requeue(run)
        else:
            run.end(Status.CRASHED)

    def _expect_requeue(self, run: ModelRun) -> None:
        run.status, run.holder = Status.PENDING, None
        run.epoch += 1

    def _is_to_cancel(self, run: ModelRun) -> bool:
        return run.status is Status.CANCELED or (run.canceled and not run.status.is_final)


STEPS = ("enqueue", "claim", "report", "beat", "time_passes", "ship_again", "enqueue_again", "cancel")
WEIGHTS = (3, 6, 8, 4, 3, 2, 1, 1)


def walked(seed: int) -> Counter[str]:
    """What was met on a walk of 80 steps."""
    machine = RunMachine(Random(seed))
    with machine.keeper.store.database:
        machine.enqueue()
        for step in machine.random.choices(STEPS, WEIGHTS, k=80):
            getattr(machine, step)()
            machine.the_store_is_as_the_model()
    return machine.seen


@tries(40)
@given(st.integers(0, 1 << 32))
def test_any_order_of_events(seed: int) -> None:
    assert walked(seed).total() > 0


def test_the_walks_meet_what_matters() -> None:
    met = sum((walked(seed) for seed in range(24)), Counter[str]())
    for case in (
        "lost PENDING",
        "lost RUNNING",
        "RUNNING on CRASHED",
        "FAILED on CRASHED",
        "RUNNING on COMPLETED",
    ):
        assert met[case], f"{case} never came about: {met}"
