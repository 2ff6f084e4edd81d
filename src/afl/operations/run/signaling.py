"""Signals to runs: deliver one, list what a run waits for and what it has not received, and the form of a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.bounds import LONGEST_NAME
from afl.kernel.clock import wall_ms
from afl.operations.parameters import Run, about
from afl.operations.people.forms import Form, answer_form
from afl.operations.run import run_store
from afl.operations.run.run_programs import program_cache
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.signals import Delivery, signal, signal_facets, unknown_signal
from afl.runtime.types import WorkflowId

KIND = "signal"
_LISTED = 100

SignalName = Annotated[
    str, Meta(max_length=LONGEST_NAME, description="The signal's name, as the workflow has it.")
]


@dataclass(frozen=True)
class AwaitedSignal:
    """A step that waits for a signal. `expires` is when its time is up, by the wall clock; 0: never."""

    name: str
    facet: str
    step: str
    task: str
    expires: int


@dataclass(frozen=True)
class KeptSignal:
    """A signal that no step has received."""

    name: str
    id: str
    value: dict[str, Any]
    created: int


@dataclass(frozen=True)
class RunSignals:
    """What a run waits for, and what it keeps until a step waits for it; the oldest first, at most 100 of each."""

    run: str
    awaited: list[AwaitedSignal]
    kept: list[KeptSignal]


def send_signal(
    store: PersistenceAPI,
    run: Run,
    name: SignalName,
    value: Annotated[
        Mapping[str, Any] | None, about("The return values of the facet that waits for it, by name.")
    ] = None,
    *,
    id: Annotated[
        str,
        Meta(
            max_length=LONGEST_NAME,
            description="An id of this delivery: repeating it changes nothing. Made up if there is none.",
        ),
    ] = "",
) -> Delivery:
    """Deliver a signal: the oldest step that waits for it continues with the value. It is kept until one does.

    The value is checked against the facet's return clause before anything is stored.
    """
    evaluator = Evaluator(store)
    evaluator.programs = program_cache(store)  # a server delivers many
    return signal(evaluator, run_store.find(store, run), name, value, id)


def list_signals(store: PersistenceAPI, run: Run) -> RunSignals:
    """List the signals that a run waits for, and those that no step has received."""
    found = run_store.find(store, run)
    workflow_id = WorkflowId(found.workflow_id)
    ahead = wall_ms() - store.now()
    tasks = store.get_tasks_by_workflow(workflow_id) if found.waiting else []
    waiting = [each for each in tasks if _waits(each)]
    kept = store.get_signals(workflow_id, limit=_LISTED)
    return RunSignals(
        found.workflow_id,
        [_awaited(each, ahead) for each in waiting[:_LISTED]],
        [KeptSignal(each.name, each.id, each.value, each.created) for each in kept],
    )


def signal_form(store: PersistenceAPI, run: Run, name: SignalName) -> Form:
    """Show the form of a signal's value: the returns of the facet that waits for it."""
    found = run_store.find(store, run)
    program = program_cache(store).load(found.program_hash)
    facets = signal_facets(store, program, WorkflowId(found.workflow_id), name)
    if not facets:
        raise unknown_signal(program, name)
    return answer_form(program, facets[0])


def _waits(task: TaskDefinition) -> bool:
    is_held = task.state == TaskState.PENDING and task.hold == TaskHold.ELSEWHERE
    return is_held and task.via.partition(":")[0] == KIND


def _awaited(task: TaskDefinition, ahead: int) -> AwaitedSignal:
    return AwaitedSignal(
        name=task.via.partition(":")[2],
        facet=task.name,
        step=paths.shown(task.step_id, WorkflowId(task.workflow_id)),
        task=task.uuid,
        expires=task.deadline + ahead if task.deadline else 0,
    )
