"""What speaks against a fork, before anything is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from afl.kernel.errors import InputError
from afl.runtime.errors import ResultError
from afl.runtime.evaluation.fork_plan import ForkPlan, called_by, plan_fork
from afl.runtime.evaluation.fork_steps import ForkEdits
from afl.runtime.evaluation.outcome import check_result
from afl.runtime.program import paths
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.program import Program
from afl.runtime.program.values import misfit, unknown_name
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, WorkflowId

_SHOWN = 20


class ForkRefused(InputError, hint="Choose another step, or `afl rerun RUN`; nothing was stored."):
    """A run cannot be forked like this."""


class StepNotBegun(ForkRefused, hint="Fork at a step that has started; `afl show RUN` lists them."):
    """The step has not started, or is in a removed iteration of a repeat."""


class ChildInProgress(ForkRefused, hint="Wait for the child run, or cancel it; then fork again.", status=409):
    """A step that would be executed again waits for a child run that is still running."""


class ProgramMisfit(
    ForkRefused, hint="Fork at an earlier step, so that these are executed again, or correct the program."
):
    """Steps that would be kept are not the same in the given program; `problems` says which."""

    def __init__(self, problems: list[str]) -> None:
        shown = "".join(f"\n  {each}" for each in problems[:_SHOWN])
        more = f"\n  and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        super().__init__(f"the program does not match the steps that are kept:{shown}{more}")
        self.problems = problems


class StepNotInProgram(
    ForkRefused,
    hint="Fork at an earlier step that the program has, too; if there is none, start the program with `afl run`.",
):
    """The given program does not have the step that the run is to be forked at."""


def check_edits(
    program: Program, plan: ForkPlan, steps: Mapping[str, StepDefinition], chosen: str, edits: ForkEdits
) -> None:
    """ForkRefused for inputs that the chosen step does not take, and results of steps that are not kept."""
    if edits.inputs:
        _check_inputs(program, plan, steps[chosen], chosen, edits.inputs)
    for path, values in edits.results.items():
        shown = paths.shown(f"/{path}", WorkflowId(""))
        if path not in plan.kept:
            raise ForkRefused(f"the result of {shown} cannot be given: it is executed again")
        _check_result(program, steps[path], shown, values)


def _check_inputs(
    program: Program, plan: ForkPlan, step: StepDefinition, chosen: str, inputs: Mapping[str, Any]
) -> None:
    shown = paths.shown(f"/{chosen}", WorkflowId(""))
    if chosen not in plan.reset:
        raise ForkRefused(
            f"the inputs of {shown} cannot be given: it waits for steps that are executed again"
        )
    kinds = _inputs_of(program, step, chosen)
    for name, value in inputs.items():
        if kinds is not None and name not in kinds:
            raise ForkRefused(f"{shown}: {unknown_name('input', name, kinds)}")
        problem = misfit(value, (kinds or {}).get(name, "Any"), program.schemas, f"input '{name}'")
        if problem:
            raise ForkRefused(f"{shown}: {problem}")
    given = {**step.attributes.params, **step.attributes.returns, **inputs}
    missing = [name for name in kinds or () if name not in given]
    if missing:
        raise ForkRefused(
            f"{shown} failed before it had inputs; give all of them: {', '.join(missing)} is missing"
        )


def _inputs_of(program: Program, step: StepDefinition, path: str) -> dict[str, Any] | None:
    """The types of a step's inputs by name; None for a facet that is not declared."""
    called = called_by(program, path)
    if called is not None and step.object_type != ObjectType.YIELD_ASSIGNMENT:
        return {each.name: each.type for each in called.params}
    place = program.place(path)
    if place.statement is None:
        loop = paths.key(path).startswith("#") and place.graph is not None and place.graph.until is None
        if not loop or place.graph is None:
            raise ForkRefused("a block has no inputs; set those of a step, or of an element of a foreach")
        return {str(place.graph.variable): "Any"}
    return {name: "Any" for name, _ in place.statement.bindings} if place.statement.is_yield else None


def _check_result(program: Program, step: StepDefinition, shown: str, values: Mapping[str, Any]) -> None:
    if step.is_block or step.object_type == ObjectType.YIELD_ASSIGNMENT or not step.is_complete:
        raise ForkRefused(f"{shown} has no result that could be given")
    declared = program.declarations.get(step.facet_name)
    known = {name: attribute.value for name, attribute in step.attributes.returns.items()}
    names = {each.name for each in (declared.returns or ())} if declared is not None else set()
    own = {name: value for name, value in known.items() if name in names}
    try:
        check_result(program, step.facet_name, {**own, **values})
    except ResultError as error:
        raise ForkRefused(f"{shown}: {error}") from error


# What a program answers to the path of a step that it does not have.
_ABSENT = (LookupError, ValueError, StopIteration)
_OTHER_BLOCK = "{} has another kind of block"


def check_has_step(program: Program, chosen: str) -> None:
    """StepNotInProgram if another program does not have the step that a run is to be forked at."""
    try:
        program.place(chosen)
    except _ABSENT as error:
        raise StepNotInProgram(f"the program does not have {_name(chosen)}") from error


def plan_with(
    program: Program, steps: Mapping[str, StepDefinition], chosen: str, edits: ForkEdits
) -> ForkPlan:
    """The plan with another program; ProgramMisfit if that has other blocks around the step."""
    check_has_step(program, chosen)
    try:
        return plan_fork(program, steps, chosen, edits.results)
    except _ABSENT as error:
        raise ProgramMisfit([f"what is around {_name(chosen)} is not in it"]) from error


def check_program(
    before: Program, after: Program, plan: ForkPlan, steps: Mapping[str, StepDefinition]
) -> None:
    """ProgramMisfit if the steps that are kept are others in another program."""
    problems = [
        _OTHER_BLOCK.format(_name(path) or "the workflow")
        if steps[path].is_block
        else f"{_name(path)} is not in it"
        for path in sorted(plan.orphans)
    ]
    for path in sorted({*plan.kept, *plan.reopened}):
        problems += _misfits(before, after, path, steps[path], is_kept=path in plan.kept)
    if problems:
        raise ProgramMisfit(list(dict.fromkeys(problems)))


def _misfits(
    before: Program, after: Program, path: str, step: StepDefinition, *, is_kept: bool
) -> Iterator[str]:
    try:
        place = after.place(path)
    except _ABSENT:
        yield f"{_name(path)} is not in it"
        return
    if step.is_block:
        known = before.place(path).graph
        if place.graph is None or known is None or place.graph.loop != known.loop:
            yield _OTHER_BLOCK.format(_name(path) or "the workflow")
        elif is_kept:
            added = [key for key in place.graph.by_key if key not in known.by_key]
            yield from (f"{_name(f'{path}/{key}')} is new, in a block that is kept" for key in added)
    elif not path:
        return  # its inputs are checked as at a start, and its outputs are those of the program
    elif place.statement is None or place.statement.facet_name != step.facet_name:
        facet = place.statement.facet_name if place.statement is not None else "no facet"
        yield f"{_name(path)} calls {facet}, not {step.facet_name}"
    elif _signature(called_by(before, path)) != _signature(called_by(after, path)):
        yield f"{_name(path)}: the signature of {step.facet_name} is another one"


def _signature(called: Declaration | None) -> Any:
    if called is None:
        return None
    params = [(each.name, each.type) for each in called.params]
    returns = [(each.name, each.type) for each in called.returns or ()]
    return called.kind, params, returns, [mixin.alias for mixin in called.mixins if mixin.alias]


def _name(path: str) -> str:
    return paths.shown(f"/{path}", WorkflowId(""))
