"""What lists of runs need beside the runs: what their open steps wait for, and how their inputs begin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from afl.runtime.entities import RunDefinition
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
    BUDGET = "budget"  # of a paused run: its reason begins with this word


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


class SearchStore(Protocol):
    """Runs by their words: of id, name, workflow, tags, inputs, outputs, error and reason, the first 300 of them.

    A text finds the runs whose id begins with it, and those that have a word for each of its words that begins with it
    (words of two characters: that is it), in any case. If there are none, it
    finds those among the 10,000 newest that contain the text in id, name, workflow, error or reason.

    Commits do not pay for that: what they leave to be indexed is indexed by runners, and before a search.
    """

    def index_runs(self, limit: int = 1_000) -> int:
        """Index runs that are new, have ended or got other tags; how many, about `limit` at most."""


class RunListStore(Protocol):
    """Looks for lists of runs: they cost as much as the open work of the runs that are named."""

    def get_runs_from(self, origin: str, limit: int = 100) -> list[RunDefinition]:
        """The runs that were started again, or forked, from a run, newest first, inputs left out.

        With a step as origin: those that were forked at it, or at one below it.
        """

    def get_open_work(self, workflow_ids: Sequence[WorkflowId]) -> list[OpenWork]:
        """The open tasks of the steps of these runs, those that are alike together."""

    def count_runs_up_to(self, state: str, most: int) -> int:
        """How many runs are in a state, counted no further than `most`."""

    def get_leading_inputs(
        self, workflow_ids: Sequence[WorkflowId], length: int = 400
    ) -> dict[WorkflowId, str]:
        """The first characters of the inputs of these runs as JSON; a run without any is left out."""
