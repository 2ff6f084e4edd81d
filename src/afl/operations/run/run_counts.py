"""How many runs are in each state that people think in, counted no further than anybody reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from afl.operations.run.run_status import BUDGET, RETRYING, WAITING, WAITS_FOR, statuses
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.run_lists import WAITS, Waits

MOST = 1_000
_STORED = (RunnerState.CREATED, RunnerState.FAILED, RunnerState.CANCELED, RunnerState.COMPLETED)


@dataclass(frozen=True)
class StateCount:
    """Runs in a state. `more`: there may be more of them than were counted."""

    state: str
    count: int
    more: bool = False


def count_states(store: PersistenceAPI) -> list[StateCount]:
    """Count runs by state and by what they wait for: exactly up to 1,000 per state, and `more` beyond."""
    counts = {state: _stored(store, state) for state in _STORED}
    budget = len(store.find_runs(RunFilter(state=RunnerState.PAUSED, waits=(Waits.BUDGET,), limit=MOST)))
    going = _looked_at(store, RunFilter(state=RunnerState.RUNNING, waits=WAITS, limit=MOST))
    cut = going.total() >= MOST
    for state in (RETRYING, *(f"{WAITING}:{kind}" for kind in WAITS_FOR)):
        counts[state] = StateCount(state, going[state], cut)
    counts[f"{WAITING}:{BUDGET}"] = StateCount(f"{WAITING}:{BUDGET}", budget, budget >= MOST)
    waiting = sum(counts[f"{WAITING}:{kind}"].count for kind in WAITS_FOR)
    counts[WAITING] = StateCount(WAITING, waiting, cut or budget >= MOST)
    counts[RunnerState.PAUSED] = _but(_stored(store, RunnerState.PAUSED, MOST + budget), budget)
    still = sum(count for state, count in going.items() if state != RunnerState.RUNNING)
    running = _but(_stored(store, RunnerState.RUNNING, MOST + still), still)
    counts[RunnerState.RUNNING] = StateCount(running.state, running.count, running.more or cut)
    return [counts[state] for state in _ORDER]


def _but(counted: StateCount, others: int) -> StateCount:
    """Without those that are counted elsewhere."""
    return StateCount(counted.state, max(0, counted.count - others), counted.more)


_ORDER = (
    *(RunnerState.CREATED, RunnerState.RUNNING, RETRYING, WAITING),
    *(f"{WAITING}:{kind}" for kind in WAITS_FOR),
    *(RunnerState.PAUSED, RunnerState.FAILED, RunnerState.CANCELED, RunnerState.COMPLETED),
)


def _stored(store: PersistenceAPI, state: str, most: int = MOST) -> StateCount:
    found = store.count_runs_up_to(state, most + 1)
    return StateCount(state, min(found, most), found > most)


def _looked_at(store: PersistenceAPI, wanted: RunFilter) -> Counter[str]:
    """Runs by their derived states; what a waiting one waits for is part of it."""
    known = statuses(store, store.find_runs(wanted)).values()
    return Counter(f"{each.status}:{each.waits_for}" if each.waits_for else each.status for each in known)
