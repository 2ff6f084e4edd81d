"""Delivering a signal to a run: what everybody outside calls, by whatever way it came.

The signal is stored first, and a task that waits for it is looked for then; an evaluator stores a task first and looks
for signals then. So one of both sees the other, and a sweep sees what a crash in between left.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel import codec
from afl.kernel.bounds import check_name
from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError, NotFoundError
from afl.kernel.ids import sortable_id
from afl.runtime.entities import RunDefinition, SignalDefinition
from afl.runtime.errors import ResultError, WorkflowRuntimeError
from afl.runtime.evaluation.outcome import check_result
from afl.runtime.evaluation.signals import receive_named
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.signals import MOST_UNRECEIVED, SignalStored
from afl.runtime.program import paths
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.program import Program
from afl.runtime.program.values import type_text
from afl.runtime.types import WorkflowId

_LOOKED_AT = 100
LARGEST_VALUE = 1024 * 1024  # bytes of JSON; a run keeps many


class UnknownSignal(NotFoundError, hint="The text says which signals the run's workflow waits for."):
    """No step of the run's workflow waits for a signal of that name."""


class SignalRefused(InputError, hint="Pass the return values of the facet by name; nothing was stored."):
    """The value does not match the return clause of the facets that wait for the signal."""


class RunOver(WorkflowRuntimeError, hint="Nothing to do: nobody waits for it any more; nothing was stored."):
    """The run has ended: it receives no signals."""


class SignalQueueFull(
    WorkflowRuntimeError, hint="Deliver it again when the run has received some of them.", status=429
):
    """As many signals of that name as a run keeps have not been received; nothing was stored."""


@dataclass(frozen=True)
class Delivery:
    """A signal that reached its run. `delivered` is False when one of this id had come before: nothing was changed.

    `step` is the step that received it; empty while the signal is kept for one that will wait for it.
    """

    run: str
    name: str
    id: str
    delivered: bool
    step: str = ""


def signal(
    evaluator: Evaluator, run: RunDefinition, name: str, value: Mapping[str, Any] | None, id: str = ""
) -> Delivery:
    """Deliver a signal to a run; it is kept until a step waits for it. The errors of this module store nothing."""
    store, workflow_id = evaluator.persistence, WorkflowId(run.workflow_id)
    check_name(name, "the name of the signal")
    given = SignalDefinition(run.workflow_id, check_name(id or sortable_id(), "the id of the signal"), name)
    is_new = store.get_signal(workflow_id, given.id) is None
    program = evaluator.programs.load(run.program_hash)
    if is_new:
        if run.is_over:
            raise _over(run)
        facets = signal_facets(store, program, workflow_id, name)
        given.value, given.created = _checked(program, facets, name, value), wall_ms()
        is_new = _stored(store.add_signal(given), run, name)
    receive_named(store, program, workflow_id, name)
    return Delivery(run.workflow_id, name, given.id, is_new, _receiver(evaluator, workflow_id, given.id))


def signal_facets(store: PersistenceAPI, program: Program, run: WorkflowId, name: str) -> list[str]:
    """The event facets that wait for a signal of this name, now or later; else those that compute their names."""
    named = [facet for facet, names in program.signals.items() if name in names]
    computed = [facet for facet, names in program.signals.items() if None in names]
    waiting = [task.name for task in store.get_signal_tasks(run, name, limit=_LOOKED_AT)] if computed else []
    return list(dict.fromkeys([*waiting, *named])) or computed


def _checked(
    program: Program, facets: list[str], name: str, value: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The value as it is stored. It must fit one of the facets: which of them waits when, the run decides."""
    if not facets:
        raise unknown_signal(program, name)
    problems = []
    for facet in facets:
        try:
            checked = check_result(program, facet, dict(value) if isinstance(value, Mapping) else value)
        except ResultError as error:
            problems.append(f"{error} (it returns {_returns(program.declarations[facet])})")
        else:
            what = f"the value of signal {name}"
            codec.encode(checked, what=what, limit=LARGEST_VALUE, levels=codec.MAX_LEVELS)
            return checked
    raise SignalRefused(f"signal {name}: {'; '.join(problems[:3])}")


def unknown_signal(program: Program, name: str) -> UnknownSignal:
    """The error of a name that no signal of the program can have."""
    names = {each for names in program.signals.values() for each in names if each is not None}
    known = f"it waits for: {', '.join(sorted(names)[:20])}" if names else "it has no `with Signal`"
    return UnknownSignal(f"{program.workflow.name} waits for no signal {name!r}; {known}")


def _returns(facet: Declaration) -> str:
    return f"({', '.join(f'{each.name}: {type_text(each.type)}' for each in facet.returns or ())})"


def _stored(came: SignalStored, run: RunDefinition, name: str) -> bool:
    if came is SignalStored.OVER:
        raise _over(run)
    if came is SignalStored.FULL:
        raise SignalQueueFull(
            f"run {run.workflow_id} keeps {MOST_UNRECEIVED:,} signals {name!r} that no step has received"
        )
    return came is SignalStored.STORED


def _over(run: RunDefinition) -> RunOver:
    how = run.state if run.is_over else "over"
    return RunOver(f"run {run.workflow_id} is {how}; it receives no signals")


def _receiver(evaluator: Evaluator, run: WorkflowId, id: str) -> str:
    kept = evaluator.persistence.get_signal(run, id)
    task = evaluator.persistence.get_task(kept.task_id) if kept is not None and kept.task_id else None
    return paths.shown(task.step_id, run) if task is not None else ""
