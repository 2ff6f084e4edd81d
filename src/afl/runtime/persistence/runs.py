"""What a store does with runs: who holds them, what operators do to them, their records, and when they are removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from afl.runtime.entities import RunDefinition, RunnerDefinition, RunOutcome
from afl.runtime.types import WorkflowId


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs: those that have every value that is not empty, at most `limit`."""

    prefix: str = ""  # the beginning of the id
    state: str = ""
    workflow: str = ""
    before: str = ""  # the id of a run: only older ones, for paging; none if it is not there
    roots: bool = False  # only those that are no child runs
    text: str = ""  # see SearchStore
    since: int = 0  # created at this time or later (wall clock, ms)
    until: int = 0  # created before this time
    tags: tuple[str, ...] = ()  # as `key=value`: those that have all of them
    waits: tuple[str, ...] = ()  # words of Waits: those with open work that waits for one of them
    longer: int = 0  # it took, or has taken so far, at least so many milliseconds
    shorter: int = 0  # at most so many
    cost_from: float = 0.0  # its models cost at least so many dollars
    cost_to: float = 0.0  # at most so many
    limit: int = 100


ANY_RUN = RunFilter()


class RunStore(Protocol):
    """Runs. One is held by at most one evaluator at a time."""

    def get_run(self, workflow_id: WorkflowId) -> RunDefinition | None:
        """The run, or None."""

    def get_runs(self, *, state: str | None = None, limit: int = 100) -> list[RunDefinition]:
        """The newest runs, newest first."""

    def find_runs(self, wanted: RunFilter = ANY_RUN) -> list[RunDefinition]:
        """The newest runs that match, newest first, inputs left out."""

    def get_outcomes(self, workflow_ids: Sequence[WorkflowId]) -> list[RunOutcome]:
        """Those of these runs that are there, in one round trip, in any order."""

    def insert_run(self, run: RunDefinition) -> bool:
        """Store a new run that nobody holds, for any evaluator to begin; False if there is one of that id."""

    def get_due_runs(self, limit: int = 100) -> list[WorkflowId]:
        """Runs that need an evaluator and have none: with unconsumed marks, or between fixed points. Oldest first."""

    def take_run(self, workflow_id: WorkflowId, *, lease_ms: int) -> RunDefinition | None:
        """Hold a run as this process, with epoch + 1, its inputs left out; None if there is no such run.

        HeldError when a holder whose lease runs and whose death is not proven has it.
        """

    def take_runs(self, workflow_ids: Sequence[WorkflowId], *, lease_ms: int) -> list[RunDefinition]:
        """`take_run` for several in one round trip: those that could be taken. Inputs come with runs not begun yet."""

    def release_run(self, run: RunDefinition) -> None:
        """End the hold that this run (owner, epoch) describes; nothing if it ended already."""


class ChildRunStore(Protocol):
    """Runs that steps of other runs started. `commit` inserts them, `finish` tells the parent of their end."""

    def get_children(
        self, parent: str, *, states: Sequence[str] = (), limit: int = 100
    ) -> list[RunDefinition]:
        """The runs that a run, or a step and those below it, started, newest first, inputs left out."""

    def count_children(self, parent: str) -> dict[str, int]:
        """How many runs a run, or a step and those below it, started, by their states."""

    def get_unsettled_children(self, limit: int = 100) -> list[WorkflowId]:
        """Child runs that ended without their parents having been told, oldest first, and those that nobody waits for,
        are to be canceled with their parents, and whose parents are over.
        """

    def parent_told(self, child: RunDefinition) -> bool:
        """No step waits for the end of a run any more; False if one does, or if that was known."""


class ControlStore(Protocol):
    """Runs that somebody pauses or cancels."""

    def pause_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        """Stop a run where it stands: no evaluator, none of its tasks claimed. False if it is over or paused already.

        Tasks that run go on, and their results wait as marks.
        """

    def unpause_run(self, workflow_id: WorkflowId) -> bool:
        """Let a paused run go on (one that had not begun is created again); False if it is not paused."""

    def cancel_run(self, workflow_id: WorkflowId, reason: str) -> bool:
        """End a run, and its tasks as canceled, whoever holds them. False if it is over already."""


class RunnerStore(Protocol):
    """Runner records."""

    def get_runner(self, uuid: str) -> RunnerDefinition | None:
        """The runner record, or None."""

    def save_runner(self, runner: RunnerDefinition) -> None:
        """Insert or replace a runner record."""

    def update_runner_state(self, uuid: str, state: str) -> bool:
        """Set a runner record's state; False if there is none."""

    def get_runners_by_state(self, state: str) -> list[RunnerDefinition]:
        """Runner records in a state, newest first."""

    def get_runners_by_workflow(self, workflow_id: WorkflowId) -> list[RunnerDefinition]:
        """Runner records of a run, newest first."""

    def get_all_runners(self, limit: int = 100) -> list[RunnerDefinition]:
        """The newest runner records, newest start first."""


UNTOLD_MS = 86_400_000  # for so long an ended run is kept whose work elsewhere has not been called off yet


class RetentionStore(Protocol):
    """What ended long ago, removed a few at a time. Times are of the wall clock, in milliseconds."""

    def delete_runs(self, ended_before: int, limit: int, among: Sequence[str] | None = None) -> int:
        """Remove up to so many runs that ended before a time, with all that belongs to them.

        With `among`, only of these.
        """

    def delete_tasks(self, ended_before: int, limit: int) -> int:
        """Remove up to so many tasks of no step that ended before a time: of no run, and so going with none."""

    def delete_logs(self, written_before: int, limit: int) -> int:
        """Remove up to so many lines of the log of no run that are older than a time."""

    def count_old_tasks(self, ended_before: int) -> int:
        """How many tasks `delete_tasks` would remove, called again and again."""
