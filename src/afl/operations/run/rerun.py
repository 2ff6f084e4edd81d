"""Starting a run again: the same program, the same inputs but for those that are given anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from afl.kernel.errors import CorruptRow
from afl.operations.parameters import Run, RunId, about
from afl.operations.people.forms import Form, start_form
from afl.operations.program.submission import RunExists, Submitted, read_pairs, submit
from afl.operations.run import run_store
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import get_budget
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

GivenInputs = Annotated[
    Mapping[str, Any] | None, about("Inputs in place of those that the run had, by their names.")
]
InputTexts = Annotated[
    list[str] | None,
    about("An input as NAME=VALUE, parsed as JSON if its type allows. Repeatable."),
]


def rerun(
    store: PersistenceAPI,
    run: Run,
    inputs: GivenInputs = None,
    *,
    texts: InputTexts = None,
    id: RunId = "",
    key: str = "",
    by: str = "",
) -> Submitted:
    """Start a run again, as a new run: the same program and inputs, name, tags, task list and budget.

    Given inputs replace the original ones; nothing is stored if one is invalid.
    """
    found = _readable(store, run)
    program = program_cache(store).load(found.program_hash)
    taken = store.get_run(WorkflowId(id)) if id else None
    if taken is not None and taken.origin != found.workflow_id:
        raise RunExists(f"there is a run {id} already; a rerun needs a new id")
    budget = get_budget(store, found.workflow_id)
    return submit(
        store,
        program,
        {**found.inputs, **(inputs or {}), **read_pairs(program, texts or ())},
        id=id,
        run_name=found.name,
        tags=found.tags,
        task_list=found.task_list,
        flow_id=found.flow_id,
        budget_usd=budget.usd if budget is not None else None,
        budget_tokens=budget.tokens if budget is not None else None,
        key=key,
        by=by,
        origin=found.workflow_id,
    )


def rerun_form(store: PersistenceAPI, run: Run) -> Form:
    """Show the inputs of a run as a form, to start it again with others."""
    found = _readable(store, run)
    return start_form(program_cache(store).load(found.program_hash), found.inputs)


def _readable(store: PersistenceAPI, run: str) -> RunDefinition:
    found = run_store.find(store, run)
    if found.unreadable:
        raise CorruptRow(found.unreadable)
    return found
