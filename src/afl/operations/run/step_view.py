"""A step with all that is known of it, or a place of the program at which several steps stand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from afl.kernel.clock import wall_ms
from afl.kernel.errors import NotFoundError
from afl.operations.parameters import about
from afl.operations.reason import subjects
from afl.operations.reason.reasons import Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot
from afl.operations.reason.step_reasons import step_reason
from afl.operations.reason.subjects import StepPlace
from afl.operations.run import run_store
from afl.operations.run.attempts import AttemptView, step_attempts
from afl.operations.run.lineage import ChildRun, children_of, was_kept
from afl.operations.run.place_view import Element, PlaceView, show_place
from afl.operations.run.run_graph import step_word
from afl.operations.run.run_log import LogLine, entries, log_line
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import Excerpt, excerpt, get_calls
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import ModelCall, UsageTotal, total
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.types import WorkflowId

__all__ = ["AttemptView", "Element", "PlaceView", "StepTask", "StepView", "show_place", "show_step"]

_MOST_LOGS = 500


@dataclass(frozen=True)
class StepTask:
    """A task of the step: how often it was delivered, who has or had it, and where it stands.

    Times are milliseconds of the wall clock; 0: none.
    """

    task: str
    state: str
    hold: str
    via: str
    attempts: int
    deaths: int
    expiries: int
    failures: int
    owner: str
    last_owner: str
    created: int
    started: int
    updated: int
    not_before: int
    deadline: int
    error: str


@dataclass(frozen=True)
class StepView:
    """One step. `state` is completed, failed, caught, waiting, running, canceled or not begun.

    `child_runs` are the runs that the step started, newest first. `kept_from` is the run that did it, if this one is a
    fork that keeps it; its attempts and its log are there.
    `tasks` is one more for each time an operator had it retried, `attempts` has all that was made of them.
    `excerpt` is the source around its statement; `failed_at` the source around what failed, if that is elsewhere.
    """

    run: str
    workflow: str
    path: str
    shown: str
    name: str
    facet: str
    state: str
    line: int | None
    excerpt: Excerpt | None
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    started: int
    ended: int
    duration_ms: int
    failure: dict[str, Any] | None
    failed_at: Excerpt | None
    caught: str
    tasks: list[StepTask] = field(default_factory=list)
    attempts: list[AttemptView] = field(default_factory=list)
    usage: UsageTotal | None = None
    calls: list[ModelCall] = field(default_factory=list)
    logs: list[LogLine] = field(default_factory=list)
    reason: Reason | None = None
    inside: list[Element] = field(default_factory=list)
    child_runs: list[ChildRun] = field(default_factory=list)
    kept_from: str = ""

    @property
    def can_retry(self) -> bool:
        """Whether trying again has a meaning."""
        return self.state == "failed"


def show_step(
    store: PersistenceAPI,
    step: Annotated[str, about("The step's id (`RUN/0/desk`), or its path as people write it (`RUN/desk`).")],
) -> StepView:
    """Show one step, which may not have started: its inputs and outputs, its attempts, its log, its error."""
    run_name, _, rest = step.partition("/")
    found = run_store.find(store, run_name)
    if not rest:
        raise NotFoundError(f"{step!r} names no step; write RUN/STEP")
    place = subjects.find_step(store, f"{found.workflow_id}/{rest}")
    return _StepReader(store, place).view()


class _StepReader:
    """Gathers what is known of one step."""

    def __init__(self, store: PersistenceAPI, place: StepPlace) -> None:
        self._store = store
        self._place = place
        self._run: RunDefinition = place.run
        self._id = WorkflowId(place.run.workflow_id)
        self._program: Program = program_cache(store).load(place.run.program_hash)
        self._path = paths.relative(place.id, self._id)
        self._snapshot = DiagnosticSnapshot(store)

    def _name(self) -> str:
        key, place = paths.key(self._path), self._program.place(self._path)
        loop = place.graph.loop if place.graph is not None and key.isdigit() else ""
        return loop or key or self._run.workflow_name

    def view(self) -> StepView:
        step, statement = self._place.step, self._program.place(self._path).statement
        tasks = self._store.get_tasks_by_step(step.id) if step is not None else []
        state, caught = self._state(step, tasks)
        failure = step.transition.error if step is not None else None
        failure = failure if isinstance(failure, StepFailure) and state == "failed" else None
        location = (statement.location if statement is not None else None) or {}
        calls = get_calls(self._store, self._id, self._place.id)
        return StepView(
            run=self._id,
            workflow=self._run.workflow_name,
            path=self._path,
            shown=paths.shown(self._place.id, self._id) or self._run.workflow_name,
            name=self._name(),
            facet=step.facet_name
            if step is not None
            else statement.facet_name
            if statement is not None
            else "",
            state=state,
            line=location.get("line"),
            excerpt=excerpt(self._program, location.get("line"), location.get("column")),
            inputs=_values(step, "params"),
            outputs=_values(step, "returns"),
            started=step.started if step is not None else 0,
            ended=step.ended if step is not None else 0,
            duration_ms=_duration(step),
            failure=failure.to_dict() if failure is not None else None,
            failed_at=excerpt(self._program, failure.line, failure.column) if failure is not None else None,
            caught=caught,
            tasks=[self._task(each) for each in tasks],
            attempts=step_attempts(self._store, tasks, self._snapshot.owner),
            usage=total(each.record for each in calls) if calls else None,
            calls=calls,
            logs=self._logs(),
            reason=step_reason(self._snapshot, self._place)
            if state in ("waiting", "running", "not begun")
            else None,
            inside=self._inside(step),
            child_runs=self._child_runs(statement),
            kept_from=self._run.source if step is not None and was_kept(self._run, step) else "",
        )

    def _child_runs(self, statement: StatementDefinition | None) -> list[ChildRun]:
        if statement is None or statement.child_run is None:
            return []
        return [each for each in children_of(self._store, self._place.id) if each.path == self._path]

    def _state(self, step: StepDefinition | None, tasks: list[TaskDefinition]) -> tuple[str, str]:
        """The word, and the error that was caught."""
        if step is None:
            return "not begun", ""
        catch = self._store.get_step(paths.child(step.id, "!"))
        worked_on = any(task.state == TaskState.RUNNING for task in tasks)
        word = step_word(step.state, is_worked_on=worked_on, catches=catch is not None)
        if word in ("waiting", "running") and self._run.state == RunnerState.CANCELED:
            word = "canceled"
        return word, str(step.get_attribute("error") or "") if word == "caught" else ""

    def _task(self, task: TaskDefinition) -> StepTask:
        ahead = wall_ms() - self._snapshot.now
        error = (task.error or {}).get("message")
        return StepTask(
            task=task.uuid,
            state=task.state,
            hold=task.hold,
            via=task.via,
            attempts=task.attempts,
            deaths=task.deaths,
            expiries=task.expiries,
            failures=task.failed_attempts,
            owner=self._snapshot.owner(task.owner) if task.owner else "",
            last_owner=self._snapshot.owner(task.last_owner) if task.last_owner else "",
            created=task.created,
            started=task.started,
            updated=task.updated,
            not_before=task.not_before + ahead if task.not_before else 0,
            deadline=task.deadline + ahead if task.deadline else 0,
            error=str(error) if error else "",
        )

    def _logs(self) -> list[LogLine]:
        mine = [log_line(log) for log in entries(self._store, self._id) if log.step_id == self._place.id]
        return mine[-_MOST_LOGS:]

    def _inside(self, step: StepDefinition | None) -> list[Element]:
        """What stands in its bodies, place by place."""
        if step is None:
            return []
        return show_place(self._store, self._id, self._path, below=True).elements


def _values(step: StepDefinition | None, part: str) -> dict[str, Any]:
    if step is None:
        return {}
    return {name: each.value for name, each in getattr(step.attributes, part).items()}


def _duration(step: StepDefinition | None) -> int:
    return max(0, (step.ended or wall_ms()) - step.started) if step is not None and step.started else 0
