"""Forking a run at a step, with the step's inputs, results of others or the program changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id
from afl.operations.parameters import Run, RunId, about
from afl.operations.people.forms import Form, call_form
from afl.operations.program.sources import SourceText, program_of
from afl.operations.program.submission import RunExists, check_run_id, read_value
from afl.operations.reason import subjects
from afl.operations.run import run_store
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import get_budget, set_budget
from afl.runtime.entities import RunDefinition
from afl.runtime.evaluation.fork_check import check_has_step
from afl.runtime.evaluation.fork_plan import called_by
from afl.runtime.evaluation.fork_steps import ForkEdits
from afl.runtime.evaluation.forking import fork_run, store_fork
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.types import ObjectType, StepId, WorkflowId

StepName = Annotated[str, about("The step: its path, as `afl show` prints it, such as fetch[3].parse.")]
Inputs = Annotated[
    Mapping[str, Any] | None, about("Inputs of the step in place of those it had, by their names.")
]
InputTexts = Annotated[
    list[str] | None, about("An input of the step, parsed as JSON if its type allows. Repeatable.")
]
Results = Annotated[
    Mapping[str, Mapping[str, Any]] | None,
    about("Results of steps that are kept: by step, the return values by name."),
]
ResultTexts = Annotated[
    list[str] | None, about("A return value of a step that is kept, as STEP.NAME=VALUE. Repeatable.")
]
Program_ = Annotated[str, about("Another program to continue with: a source in AFL.")]
_WITH_INPUTS = (ObjectType.VARIABLE_ASSIGNMENT, ObjectType.FACET)


@dataclass(frozen=True)
class Forked:
    """A run that was forked from `origin` at `step`.

    Of the steps that agents do, `kept` were taken over with their results, and `again` are executed again.
    """

    run: str
    workflow: str
    task_list: str
    origin: str
    step: str
    kept: int
    again: int


def fork(
    store: PersistenceAPI,
    run: Run,
    step: StepName,
    *,
    inputs: Inputs = None,
    texts: InputTexts = None,
    results: Results = None,
    result_texts: ResultTexts = None,
    source: Program_ = "",
    name: str = "",
    libraries: Sequence[SourceText] = (),
    id: RunId = "",
) -> Forked:
    """Start a run again from a step, as a new run.

    It keeps every completed step that does not depend on that step, and executes all others again. The original run
    is not changed. Nothing is stored if something is invalid.
    """
    found = run_store.find(store, run)
    check_run_id(id)
    known = program_cache(store).load(found.program_hash)
    program = program_of(source, found.workflow_name, name=name, libraries=libraries) if source else known
    path = _path_of(store, found, step)
    check_has_step(program, path)
    edits = ForkEdits(
        {**(inputs or {}), **_read_inputs(program, path, texts or ())},
        _read_results(store, found, known, results or {}, result_texts or ()),
    )
    new_id = id or sortable_id()
    if id and store.get_run(WorkflowId(id)) is not None:
        raise RunExists(f"there is a run {id} already; a fork needs a new id")
    made = fork_run(
        store,
        found,
        path,
        id=new_id,
        program=program,
        known_program=known if program is not known else None,
        edits=edits,
    )
    budget = get_budget(store, found.workflow_id)
    if budget is not None:
        set_budget(store, new_id, usd=budget.usd, tokens=budget.tokens)  # somebody may take it up at once
    program_cache(store).store(program)
    store_fork(store, made)
    shown = paths.shown(made.run.origin, WorkflowId(found.workflow_id))
    return Forked(
        new_id, made.run.workflow_name, made.run.task_list, found.workflow_id, shown, made.kept, made.again
    )


@dataclass(frozen=True)
class ForkForm:
    """What a fork at a step would do, and the step's inputs as a form; `kept` and `again` are those of Forked."""

    run: str
    workflow: str
    step: str
    form: Form
    kept: int
    again: int


def fork_form(store: PersistenceAPI, run: Run, step: StepName) -> ForkForm:
    """Show what a fork of a run at a step would keep and execute again, and the step's inputs as a form."""
    found = run_store.find(store, run)
    program = program_cache(store).load(found.program_hash)
    path = _path_of(store, found, step)
    made = fork_run(store, found, path, id=sortable_id(), program=program)  # and not stored
    stored = store.get_step(StepId(paths.child(found.workflow_id, path)))
    called = called_by(program, path)
    shown = paths.shown(made.run.origin, WorkflowId(found.workflow_id))
    form = Form(shown, "")
    if called is not None and stored is not None and stored.object_type in _WITH_INPUTS:
        given = {name: each.value for name, each in stored.attributes.params.items()}
        form = call_form(program, called, given)
    return ForkForm(found.workflow_id, found.workflow_name, shown, form, made.kept, made.again)


def _path_of(store: PersistenceAPI, run: RunDefinition, step: str) -> str:
    """The path of a step that is named by its path, its readable path or its id."""
    inside = step.removeprefix(f"{run.workflow_id}/")
    if inside in ("", run.workflow_id):
        return ""  # the run itself
    place = subjects.find_step(store, f"{run.workflow_id}/{inside}")
    return paths.relative(place.id, WorkflowId(run.workflow_id))


def _pair(text: str, form: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise InputError(f"expected {form}, got {text!r}")
    return name, value


def _read_inputs(program: Program, path: str, texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {}
    called = called_by(program, path)
    kinds = {each.name: each.type for each in called.params} if called is not None else {}
    pairs = [_pair(text, "an input of the step, NAME=VALUE") for text in texts]
    return {name: read_value(text, kinds.get(name, "Any"), what=f"input {name!r}") for name, text in pairs}


def _read_results(
    store: PersistenceAPI,
    run: RunDefinition,
    program: Program,
    results: Mapping[str, Mapping[str, Any]],
    texts: Sequence[str],
) -> dict[str, dict[str, Any]]:
    read = {_path_of(store, run, step): dict(values) for step, values in results.items()}
    for each in texts:
        target, text = _pair(each, "a result, STEP.NAME=VALUE")
        step, _, name = target.rpartition(".")
        if not step:
            raise InputError(f"expected a result, STEP.NAME=VALUE, got {each!r}")
        path = _path_of(store, run, step)
        called = called_by(program, path)
        kinds = {field.name: field.type for field in called.returns or ()} if called is not None else {}
        read.setdefault(path, {})[name] = read_value(text, kinds.get(name, "Any"), what=f"{path}.{name}")
    return read
