"""How many runs are in each state that people think in, counted no further than anybody reads."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from afl.operations.run.run_status import BUDGET, RETRYING, WAITING, WAITS_FOR, statuses
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.run_lists import WAITS

MOST = 1_000
_STORED = (RunnerState.CREATED, RunnerState.FAILED, RunnerState.CANCELED, RunnerState.COMPLETED)


@dataclass(frozen=True)
class StateCount:
    """Runs in a state. `more`: there may be more of them than were counted."""

    state: str
    count: int
    more: bool = False


def count_states(store: PersistenceAPI) -> list[StateCount]:
    """Count runs by what they do or wait for: exactly up to 1,000 of a state, and `more` beyond."""
    counts = {state: _stored(store, state) for state in _STORED}
    paused = _looked_at(store, RunFilter(state=RunnerState.PAUSED, limit=MOST))
    going = _looked_at(store, RunFilter(state=RunnerState.RUNNING, waits=WAITS, limit=MOST))
    cut = {name: sum(found.values()) >= MOST for name, found in (("paused", paused), ("going", going))}
    counts[RunnerState.PAUSED] = StateCount(RunnerState.PAUSED, paused[RunnerState.PAUSED], cut["paused"])
    for state in (RETRYING, *(f"{WAITING}:{kind}" for kind in WAITS_FOR)):
        several, which = (paused, "paused") if state.endswith(BUDGET) else (going, "going")
        counts[state] = StateCount(state, several[state], cut[which])
    waiting = [counts[f"{WAITING}:{kind}"] for kind in WAITS_FOR]
    counts[WAITING] = StateCount(
        WAITING, sum(each.count for each in waiting), any(each.more for each in waiting)
    )
    running = _stored(store, RunnerState.RUNNING, MOST + sum(going.values()))
    still = sum(count for state, count in going.items() if state != RunnerState.RUNNING)
    counts[RunnerState.RUNNING] = StateCount(
        RunnerState.RUNNING, min(max(0, running.count - still), MOST), running.more or cut["going"]
    )
    return [counts[state] for state in _ORDER]


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
