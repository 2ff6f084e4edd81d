"""The values of a run that can be read while it runs: what it has published, and results of its steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from afl.kernel.errors import NotFoundError
from afl.operations.parameters import Run, about
from afl.operations.reason import subjects
from afl.operations.run import run_store
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId


@dataclass(frozen=True)
class RunValues:
    """Values of a run as one commit left them, and when each was written (wall clock, ms)."""

    run: str
    workflow: str
    state: str
    values: dict[str, Any] = field(default_factory=dict)
    updated: dict[str, int] = field(default_factory=dict)


def query(
    store: PersistenceAPI,
    run: Run,
    name: Annotated[
        str, about("A published value, or a step for its results. Default: all published values.")
    ] = "",
) -> RunValues:
    """Read values of a run: what it published with `sys.Publish`, or the results of a step."""
    found = run_store.find(store, run or None)
    published = {each.name: each for each in store.get_published(WorkflowId(found.workflow_id))}
    if name and name not in published:
        return _step_results(store, found, name, sorted(published))
    wanted = [published[name]] if name else list(published.values())
    return RunValues(
        run=found.workflow_id,
        workflow=found.workflow_name,
        state=found.state,
        values={each.name: each.value for each in wanted},
        updated={each.name: each.updated for each in wanted},
    )


def _step_results(store: PersistenceAPI, found: RunDefinition, name: str, published: list[str]) -> RunValues:
    try:
        step = subjects.find_step(store, f"{found.workflow_id}/{name}").step
    except NotFoundError:
        step = None
    if step is None or not step.is_complete:
        known = f"; it has published {', '.join(published)}" if published else ""
        raise NotFoundError(
            f"run {found.workflow_id} has published no {name!r}, and has no completed step of that name{known}"
        )
    return RunValues(
        run=found.workflow_id,
        workflow=found.workflow_name,
        state=found.state,
        values={name: {each: value.value for each, value in step.attributes.returns.items()}},
        updated={name: step.ended},
    )
