"""What lists of runs need beside the runs: what their open steps wait for, and how their inputs begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from afl.runtime.types import WorkflowId


class Waits:
    """What open work of a run waits for."""

    PERSON = "person"
    SIGNAL = "signal"
    TIMER = "timer"
    SLOT = "slot"  # concurrency, or a rate
    RUN = "run"  # a child run
    RETRY = "retry"  # an attempt failed, and the work is tried again
    AGENT = "agent"  # whoever claims it


WAITS = (Waits.PERSON, Waits.SIGNAL, Waits.TIMER, Waits.SLOT, Waits.RUN, Waits.RETRY, Waits.AGENT)


@dataclass(frozen=True, slots=True)
class OpenWork:
    """Open tasks of one run's steps that are alike.

    `via` is where the work goes on, "run:" for child runs. `retried`: an attempt failed before. `rated`: it may begin
    when its rate allows.
    """

    workflow_id: str
    name: str
    task_list: str
    state: str
    hold: str
    via: str
    retried: bool
    rated: bool
    count: int


class RunListStore(Protocol):
    """Looks for lists of runs: they cost as much as the open work of the runs that are named."""

    def get_open_work(self, workflow_ids: Sequence[WorkflowId]) -> list[OpenWork]:
        """The open tasks of the steps of these runs, those that are alike together."""

    def count_runs_up_to(self, state: str, most: int) -> int:
        """How many runs are in a state, counted no further than `most`."""

    def get_leading_inputs(
        self, workflow_ids: Sequence[WorkflowId], length: int = 400
    ) -> dict[WorkflowId, str]:
        """The first characters of the inputs of these runs as JSON; a run without any is left out."""
