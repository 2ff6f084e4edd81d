"""Submitting a run: it is stored, and whichever server sees it first works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from afl.kernel.ids import sortable_id
from afl.operations.spending import set_budget
from afl.runtime.evaluator import Evaluator
from afl.runtime.inputs import check_inputs
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import Program
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class Submitted:
    """A run that was stored."""

    run: str
    workflow: str
    task_list: str


def submit(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    task_list: str = "default",
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
) -> Submitted:
    """Store a run for the servers of a task list. InputError, and nothing stored, if an input does not fit."""
    check_inputs(program, inputs or {})
    run = WorkflowId(sortable_id())
    if (
        budget_usd is not None or budget_tokens is not None
    ):  # before the run is there: somebody may begin it at once
        set_budget(store, run, usd=budget_usd, tokens=budget_tokens)
    Evaluator(store).submit(program, inputs, task_list=task_list, workflow_id=run)
    return Submitted(run, program.workflow.name, task_list)
