"""What a watcher knows about a run: its event steps, folded so that ten thousand of them are one line."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from afl.cli.console import duration
from afl.operations.run.signal_hint import how_to_deliver
from afl.runtime.entities import TaskDefinition
from afl.runtime.program import paths
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, WorkflowId

_INDEX = re.compile(r"#\d+")
_ELEMENT = re.compile(r"\[\d+\]")
_CATCHING = "state.statement.catch"


@dataclass
class Fold:
    """All event steps at one place of the program.

    `expected` is how many there will be, if that is known; `error` the first one's, `latest` how long the last took.
    Of attempts that failed and are made again, `retries` counts all, `delayed` those whose next one has not begun.
    """

    name: str
    facet: str
    began: float
    expected: int = 0
    running: int = 0
    delayed: int = 0
    retries: int = 0
    done: int = 0
    failed: int = 0
    caught: int = 0
    ended: float = 0.0
    error: str = ""
    latest: float = 0.0

    @property
    def over(self) -> int:
        """Steps whose handler ended, one way or the other."""
        return self.done + self.failed + self.caught

    @property
    def started(self) -> int:
        """Steps whose handler began."""
        return self.running + self.delayed + self.over

    @property
    def is_many(self) -> bool:
        """Whether the fold stands for more than one step."""
        return max(self.expected, self.started) > 1

    def seconds(self, now: float) -> float:
        """From the first handler's beginning to the last one's end, or until now."""
        return (now if self.running or self.delayed else self.ended) - self.began


class Progress:
    """The observer of a run. The display reads it from another thread, hence the lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.lock = threading.RLock()
        self.clock = clock
        self.run = ""
        self.workflow = ""
        self.began_at = clock()
        self.folds: dict[str, Fold] = {}
        self.waits: dict[str, str] = {}  # for what nobody here can do, in words, by task
        self._failed: dict[str, Fold] = {}
        self._failed_within: dict[
            str, set[str]
        ] = {}  # the steps that failed, by all that they are in, and by themselves
        self._loops: dict[str, dict[str, int]] = {}
        self._started: dict[str, float] = {}
        self._delayed: set[str] = set()

    def began(self, workflow_id: str, workflow_name: str) -> None:
        with self.lock:
            self.run, self.workflow, self.began_at = workflow_id, workflow_name, self.clock()

    def stored(self, steps: list[StepDefinition]) -> None:
        with self.lock:
            for step in steps:
                if step.object_type == ObjectType.AND_MAP and step.progress is not None:
                    self._loops.setdefault(_place(step.id), {})[step.id] = step.progress.total
                for failed in self._caught_by(step):
                    if (fold := self._failed.pop(failed, None)) is not None:
                        fold.failed -= 1
                        fold.caught += 1

    def _caught_by(self, step: StepDefinition) -> set[str]:
        """The steps that failed in this one, or this one, if it goes on all the same."""
        if step.id not in self._failed_within:
            return set()
        if step.is_complete:
            return self._failed_within.pop(step.id)
        if step.state.startswith(_CATCHING):
            catch = paths.child(step.id, "!")
            return {each for each in self._failed_within[step.id] if not paths.is_within(each, catch)}
        return set()

    def awaited(self, tasks: list[TaskDefinition]) -> None:
        with self.lock:
            self.waits = {task.uuid: text for task in tasks if (text := _waits(task))}

    def task_started(self, task: TaskDefinition) -> None:
        with self.lock:
            fold = self._fold(task)
            fold.running += 1
            if task.step_id in self._delayed:
                self._delayed.remove(task.step_id)
                fold.delayed -= 1
            self._started[task.uuid] = self.clock()

    def task_retried(self, task: TaskDefinition, error: str, delay_ms: int) -> None:
        with self.lock:
            fold = self._returned(task)
            fold.delayed += 1
            fold.retries += 1
            fold.error = f"{error}; next attempt in {duration(delay_ms)}"
            self._delayed.add(task.step_id)

    def task_ended(self, task: TaskDefinition, error: str | None) -> None:
        with self.lock:
            fold = self._returned(task)
            if fold.retries and not fold.failed and not fold.caught:
                fold.error = ""
            if error is None:
                fold.done += 1
            else:
                fold.failed += 1
                fold.error = fold.error or error
                self._failed[task.step_id] = fold
                for above in paths.prefixes(task.step_id):
                    self._failed_within.setdefault(above, set()).add(task.step_id)

    def _returned(self, task: TaskDefinition) -> Fold:
        fold = self._fold(task)
        fold.running -= 1
        fold.ended = self.clock()
        fold.latest = fold.ended - self._started.pop(task.uuid)
        return fold

    @property
    def total(self) -> Fold:
        """All folds together."""
        with self.lock:
            every = list(self.folds.values())
            return Fold(
                "",
                "",
                self.began_at,
                running=sum(fold.running for fold in every),
                delayed=sum(fold.delayed for fold in every),
                done=sum(fold.done for fold in every),
                failed=sum(fold.failed for fold in every),
                caught=sum(fold.caught for fold in every),
            )

    def _fold(self, task: TaskDefinition) -> Fold:
        place = _place(task.step_id)
        fold = self.folds.get(place)
        if fold is None:
            name = _ELEMENT.sub("", paths.shown(task.step_id, WorkflowId(task.workflow_id)))
            fold = self.folds[place] = Fold(name.lstrip("."), task.name, self.clock())
        fold.expected = self._expected(place)
        return fold

    def _expected(self, place: str) -> int:
        """How many elements the nearest foreach around a place has; 0 when a case decides who gets there."""
        loop, _, inside = place.rpartition("/#/")
        return 0 if "?" in inside else sum(self._loops.get(loop, {}).values())


def _waits(task: TaskDefinition) -> str:
    """What somebody outside has to do about a task, in words; empty for what goes on by itself."""
    kind, _, name = task.via.partition(":")
    if kind == "signal":
        return f"waiting for a signal: {how_to_deliver(task)}"
    return f"waiting for someone in {name}: afl approvals show {task.uuid}" if kind == "human" else ""


def _place(step_id: str) -> str:
    """A step's path in the program: without the run's id and without indices."""
    return _INDEX.sub("#", step_id.partition("/")[2])
