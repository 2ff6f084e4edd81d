"""Two runs side by side: program, inputs, steps, results, errors, durations, cost; what differs comes first."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from afl.kernel.errors import InputError
from afl.operations.parameters import Limit, Run, about
from afl.operations.run import run_store
from afl.operations.run.run_graph import step_word
from afl.operations.run.run_list import RunLine, run_line
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import get_usage
from afl.runtime.entities import RunDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.inspection import TaskLine
from afl.runtime.persistence.usage import total
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepLine
from afl.runtime.types import StepId, WorkflowId

_LONGEST_VALUE = 2_000
_MOST_SOURCE_LINES = 500
_PIECE = 500  # steps whose values are read at a time


@dataclass(frozen=True)
class ComparedValue:
    """A value in both runs, as JSON; empty where it is not set. Long ones are cut, after they were compared."""

    name: str
    first: str
    second: str
    differs: bool


@dataclass(frozen=True)
class StepSide:
    """A step in one of the runs."""

    state: str
    duration_ms: int
    attempts: int
    error: str


@dataclass(frozen=True)
class ComparedStep:
    """A step in both runs; None where it was not reached. `values` are those of its inputs and results that differ.

    `step` is its path as people write it. Two steps differ if their states, values or errors do; durations may.
    """

    step: str
    path: str
    facet: str
    first: StepSide | None
    second: StepSide | None
    values: list[ComparedValue] = field(default_factory=list)

    @property
    def differs(self) -> bool:
        """Whether something other than the time it took is different."""
        a, b = self.first, self.second
        return bool(self.values) or a is None or b is None or (a.state, a.error) != (b.state, b.error)


@dataclass(frozen=True)
class RunComparison:
    """Two runs. `source` is the difference of their sources in the unified format, empty if they are the same.

    `steps` has those that differ first, each part in program order; `different` and `same` count all of them.
    """

    first: RunLine
    second: RunLine
    facts: list[ComparedValue]
    inputs: list[ComparedValue]
    outputs: list[ComparedValue]
    source: list[str]
    steps: list[ComparedStep]
    different: int
    same: int

    @property
    def is_same(self) -> bool:
        """Whether program, inputs, steps and results are the same."""
        values = [*self.inputs, *self.outputs]
        return not (self.different or self.source or any(each.differs for each in values))


def compare_runs(
    store: PersistenceAPI,
    first: Run,
    second: Annotated[
        str,
        about(
            "The run to compare it with. Default: the run that the first one repeats, which is then shown first."
        ),
    ] = "",
    *,
    limit: Limit = 200,
) -> RunComparison:
    """Compare two runs: program, inputs, steps, results, errors, durations and cost. Differences come first."""
    run = run_store.find(store, first)
    runs = (run, run_store.find(store, second)) if second else (_origin(store, run), run)
    sides = [_Side(store, each) for each in runs]
    steps = _steps(*sides)
    different = [each for each in steps if each.differs]
    same = [each for each in steps if not each.differs]
    return RunComparison(
        first=run_line(runs[0]),
        second=run_line(runs[1]),
        facts=[_value(name, sides[0].facts, sides[1].facts) for name in sides[0].facts],
        inputs=_values(runs[0].inputs, runs[1].inputs),
        outputs=_values(runs[0].outputs, runs[1].outputs),
        source=_source_difference(store, *runs),
        steps=[*different, *same][:limit],
        different=len(different),
        same=len(same),
    )


def _origin(store: PersistenceAPI, run: RunDefinition) -> RunDefinition:
    if not run.origin:
        raise InputError(
            f"run {run.workflow_id} is neither a rerun nor a fork of another run; name a run to compare it with"
        )
    return run_store.find(store, run.origin.partition("/")[0])


class _Side:
    """One of the two runs."""

    def __init__(self, store: PersistenceAPI, run: RunDefinition) -> None:
        self._id = WorkflowId(run.workflow_id)
        lines = store.get_step_lines(self._id)
        self._catchers = {paths.parent(each.id) for each in lines if paths.key(each.id) == "!"}
        compared = [each.id for each in lines if paths.relative(each.id, self._id) and _is_compared(each)]
        self.steps = {paths.relative(each.id, self._id): each for each in _read(store, compared)}
        self._tasks: dict[str, list[TaskLine]] = {}
        for task in store.get_task_lines(self._id):
            self._tasks.setdefault(task.step_id, []).append(task)
        self.facts = self._facts(store, run)

    def _facts(self, store: PersistenceAPI, run: RunDefinition) -> dict[str, Any]:
        line = run_line(run)
        used = total(get_usage(store, run.workflow_id))
        return {
            "workflow": line.workflow,
            "state": line.state,
            "error": line.error,
            "program": run.program_hash[:12],
            "duration_ms": line.duration_ms,
            "steps": len(self.steps),
            "attempts": sum(each.deliveries for tasks in self._tasks.values() for each in tasks),
            "cost_usd": round(used.cost_usd, 6),
            "tokens": used.usage.total_tokens,
        }

    def shown(self, path: str) -> str:
        """The path of a step as people write it."""
        return paths.shown(f"{self._id}/{path}", self._id)

    def side(self, path: str) -> StepSide | None:
        """How the step stands here."""
        step = self.steps.get(path)
        if step is None:
            return None
        tasks = self._tasks.get(step.id, [])
        error = step.transition.error
        return StepSide(
            state=step_word(
                step.state,
                is_worked_on=any(each.state == TaskState.RUNNING for each in tasks),
                catches=step.id in self._catchers,
            ),
            duration_ms=max(0, step.ended - step.started) if step.ended else 0,
            attempts=sum(each.deliveries for each in tasks),
            error=error.text if isinstance(error, StepFailure) else "",
        )


def _is_compared(step: StepLine) -> bool:
    """Blocks only group; what a yield passes on is compared as the result of what it yields to."""
    key = paths.key(step.id)
    return not paths.is_block(key) and (key[0] != ">" or step.state == StepState.STATEMENT_ERROR)


def _read(store: PersistenceAPI, steps: Sequence[StepId]) -> Iterator[StepDefinition]:
    """Steps with their values, in this order."""
    for start in range(0, len(steps), _PIECE):
        piece = steps[start : start + _PIECE]
        found = {step.id: step for step in store.get_steps(piece)}
        yield from (found[each] for each in piece if each in found)


def _steps(first: _Side, second: _Side) -> list[ComparedStep]:
    found = []
    for path in dict.fromkeys([*first.steps, *second.steps]):
        here, there = first.steps.get(path), second.steps.get(path)
        step = here or there
        assert step is not None
        values = [
            *_values(_attributes(here, "params"), _attributes(there, "params")),
            *_values(_attributes(here, "returns"), _attributes(there, "returns")),
        ]
        both = here is not None and there is not None
        found.append(
            ComparedStep(
                step=first.shown(path),
                path=path,
                facet=step.facet_name,
                first=first.side(path),
                second=second.side(path),
                values=[each for each in values if each.differs] if both else [],
            )
        )
    return found


def _attributes(step: StepDefinition | None, part: str) -> dict[str, Any]:
    if step is None:
        return {}
    return {name: each.value for name, each in getattr(step.attributes, part).items()}


def _values(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[ComparedValue]:
    """Differing ones first."""
    names: Iterable[str] = dict.fromkeys([*first, *second])
    found = [_value(name, first, second) for name in names]
    return sorted(found, key=lambda each: not each.differs)


def _value(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> ComparedValue:
    one, other = (_text(side[name]) if name in side else "" for side in (first, second))
    return ComparedValue(name, one[:_LONGEST_VALUE], other[:_LONGEST_VALUE], differs=one != other)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _source_difference(store: PersistenceAPI, first: RunDefinition, second: RunDefinition) -> list[str]:
    if first.program_hash == second.program_hash:
        return []
    programs = [program_cache(store).load(each.program_hash) for each in (first, second)]
    one, other = (each.source_text.splitlines() for each in programs)
    names = [
        f"{each.source} ({run.workflow_id})" for each, run in zip(programs, (first, second), strict=True)
    ]
    lines = list(difflib.unified_diff(one, other, names[0], names[1], lineterm=""))
    return lines[:_MOST_SOURCE_LINES]
