"""Runs in a store: it is opened, and they are found by id or the beginning of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afl.kernel.errors import InputError, NotFoundError
from afl.kernel.ids import is_sortable
from afl.kernel.settings import Settings
from afl.operations.store_file import require_file
from afl.runtime.entities import RunDefinition
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.store import store_of
from afl.runtime.types import WorkflowId

_LISTED_RUNS = 5
_SHORTEST_PREFIX = 2


class UnknownRun(NotFoundError, hint="`afl list` lists the runs; check --store too."):
    """There is no such run; `latest` are those one may have meant."""

    def __init__(self, name: str, latest: list[RunDefinition]) -> None:
        super().__init__(f"there is no run {name} in this store")
        self.name = name
        self.latest = latest


class StepInsteadOfRun(
    NotFoundError, hint="`afl why RUN/STEP` says how a step stands, `afl logs RUN/STEP` what it logged."
):
    """The id of a step was given where a run is expected."""


@contextmanager
def opened(settings: Settings, *, create: bool = True) -> Iterator[PersistenceAPI]:
    """The store of the settings, for a while; without `create` a file that is not there is an error."""
    if not create:
        require_file(settings.store)
    store = store_of(settings)
    try:
        yield store
    finally:
        store.close()


def find(store: PersistenceAPI, name: str | None = None) -> RunDefinition:
    """The run of an id, or of a generated id's prefix that only it has; without a name the latest that is no child."""
    if name is None:
        latest = store.find_runs(RunFilter(roots=True, limit=1))
        if not latest:
            raise InputError("there is no run in this store yet")
        name = latest[0].workflow_id
    if "/" in name:
        raise StepInsteadOfRun(
            f"there is no run {name}; a step is called so, of run {name.partition('/')[0]}"
        )
    exact = store.get_run(WorkflowId(name))
    if exact is not None:
        return exact
    matches = with_prefix(store, name, _LISTED_RUNS + 1)
    if not matches:
        raise UnknownRun(name, store.find_runs(RunFilter(limit=_LISTED_RUNS)))
    if len(matches) > 1:
        count = len(matches) if len(matches) <= _LISTED_RUNS else f"more than {_LISTED_RUNS}"
        shown = ", ".join(each.workflow_id for each in matches[:_LISTED_RUNS])
        raise InputError(f"{count} runs start with {name}: {shown}; write more of the id")
    found = store.get_run(WorkflowId(matches[0].workflow_id))  # with its inputs
    if found is None:
        raise UnknownRun(name, [])
    return found


def with_prefix(store: PersistenceAPI, prefix: str, limit: int) -> list[RunDefinition]:
    """The runs whose generated id begins so. One that somebody chose is found by all of it: order-1 is not order-10."""
    if len(prefix) < _SHORTEST_PREFIX:
        return []
    found = store.find_runs(RunFilter(prefix=prefix, limit=limit))
    return [run for run in found if is_sortable(run.workflow_id)]
