"""The history of a run: what happened to it and to its steps, in the order of the commits that stored it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from afl.runtime.types import WorkflowId

KEPT_COMMITS = 10_000  # of the latest commits of a run the events are kept; a loop may go on forever
TRIM_EVERY = 1_000
LONGEST_DETAIL = 500


class HistoryKind:
    """What happened."""

    STEP_STARTED = "step-started"  # a worker may take up its task
    STEP_WAITING = (
        "step-waiting"  # for what is not a worker: a person, a signal, a timer, an agent, a child run
    )
    STEP_COMPLETED = "step-completed"
    STEP_FAILED = "step-failed"
    RUN_COMPLETED = "run-completed"
    RUN_FAILED = "run-failed"
    RUN_CANCELED = "run-canceled"
    RUN_PAUSED = "run-paused"
    RUN_RESUMED = "run-resumed"
    RUN_RETRIED = "run-retried"


class HistoryEvent(msgspec.Struct, frozen=True, array_like=True):
    """One thing that happened, at a time of the wall clock (ms). `step` is its path in the run; empty: the run itself.

    `detail` is what a step waits for (`human:finance`, `signal:paid`, `timer`), an error, or a reason.
    """

    kind: str
    time: int
    step: str = ""
    facet: str = ""
    detail: str = ""


class HistoryStore(Protocol):
    """The histories of runs. A commit appends what happened in it, under the next number of its run."""

    def get_history(
        self, workflow_id: WorkflowId, after: int = 0, limit: int = 1000
    ) -> list[tuple[int, list[HistoryEvent]]]:
        """The events of the commits behind a number, with their numbers, oldest first.

        Numbers become visible in their order: who reads on from the last one misses nothing and repeats nothing. Of a
        run with very many commits the oldest are removed.
        """


def history_text(events: Iterable[HistoryEvent]) -> str:
    """Events as a store keeps them."""
    return msgspec.json.encode(list(events)).decode()


def history_from(text: str) -> list[HistoryEvent]:
    """The events of a stored text."""
    return msgspec.json.decode(text, type=list[HistoryEvent])
