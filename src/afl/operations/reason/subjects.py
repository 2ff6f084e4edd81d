"""What an id means: a run, a step, a task or a server, by its whole id or by a beginning that only it has.

A step is written `RUN/0/desk/story` (its id) or `RUN/desk.story` (as people read it), and may be one that has not
begun yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from afl.kernel.errors import InputError, NotFoundError
from afl.kernel.near_names import near_name
from afl.operations.run import run_store
from afl.runtime.entities import RunDefinition, ServerDefinition, TaskDefinition
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.program import paths
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

_SHOWN = 5


@dataclass(frozen=True)
class StepPlace:
    """A step of a run; `step` is None for one that has not begun."""

    run: RunDefinition
    id: StepId
    step: StepDefinition | None


Subject: TypeAlias = RunDefinition | StepPlace | TaskDefinition | ServerDefinition


class UnknownSubject(NotFoundError, hint="`afl list`, `afl tasks` and `afl ps` list the ids."):
    """Nothing has that id."""


def find(store: PersistenceAPI, name: str | None) -> Subject:
    """What is meant; without a name the latest run."""
    if name is None:
        return run_store.find(store)
    if "/" in name:
        return find_step(store, name)
    found = _exact(store, name)
    if found is None and name:
        matches = _beginning(store, name)
        if len(matches) > 1:
            shown = ", ".join(f"{_kind(each)} {_id(each)}" for each in matches[:_SHOWN])
            raise InputError(f"{len(matches)} things start with {name}: {shown}; write more of the id")
        found = matches[0] if matches else None
    if found is None:
        raise UnknownSubject(f"there is no run, task or server {name!r} in this store")
    return found


def find_step(store: PersistenceAPI, name: str) -> StepPlace:
    """The step of an id or of a readable path."""
    head, _, rest = name.partition("/")
    run = run_store.find(store, head)
    exact = StepId(f"{run.workflow_id}/{rest}" if rest else run.workflow_id)
    step = store.get_step(exact)
    if step is not None:
        return StepPlace(run, exact, step)
    readable = _Readable(store, run)
    found = readable.resolve(rest) or _future(store, run, exact)
    if found is None:
        near = readable.near(rest)
        meant = f"did you mean {near!r}? " if near else ""
        raise UnknownSubject(
            f"run {run.workflow_id} has no step {rest!r}; {meant}`afl show {run.workflow_id}` lists them"
        )
    return found


def _exact(store: PersistenceAPI, name: str) -> Subject | None:
    return store.get_run(WorkflowId(name)) or store.get_task(name) or store.get_server(name)


def _beginning(store: PersistenceAPI, prefix: str) -> list[Subject]:
    return [
        *run_store.with_prefix(store, prefix, _SHOWN + 1),
        *store.find_tasks(TaskFilter(prefix=prefix, limit=_SHOWN + 1)),
        *(server for server in store.get_all_servers() if server.uuid.startswith(prefix)),
    ]


def _future(store: PersistenceAPI, run: RunDefinition, step_id: StepId) -> StepPlace | None:
    """A step by its id that the program has, but the run not yet; its block has begun."""
    block = store.get_step(paths.parent(step_id))
    program = ProgramCache(store).load(run.program_hash)
    if block is None and "/#" in step_id:
        return _of_iteration(program, run, step_id)
    if block is None or not block.is_block:
        return None
    graph = program.place(paths.relative(block.id, WorkflowId(run.workflow_id))).graph
    known = graph is not None and paths.key(step_id) in graph.by_key
    return StepPlace(run, step_id, None) if known else None


def _of_iteration(program: Program, run: RunDefinition, step_id: StepId) -> StepPlace | None:
    """A step in an iteration of a repeat that is not in the store: it was removed, or has not come."""
    path = paths.relative(step_id, WorkflowId(run.workflow_id))
    try:
        known = any(program.repeats_around(path)) and program.place(path).statement is not None
    except (LookupError, ValueError):
        return None
    return StepPlace(run, step_id, None) if known else None


class _Readable:
    """Steps of one run by their readable path, whether they have begun or not."""

    def __init__(self, store: PersistenceAPI, run: RunDefinition) -> None:
        self._run = run
        self._id = WorkflowId(run.workflow_id)
        self._program: Program = ProgramCache(store).load(run.program_hash)
        self._steps: dict[str, StepDefinition] = {}
        for step in store.get_steps_by_workflow(self._id):
            shown = paths.shown(step.id, self._id)
            if shown not in self._steps or self._steps[shown].is_block:  # the step itself, not a block of it
                self._steps[shown] = step

    def resolve(self, text: str) -> StepPlace | None:
        """The step that people call by this text."""
        step = self._steps.get(text)
        if step is not None:
            return StepPlace(self._run, step.id, step)
        head, _, name = text.rpartition(".")
        parent = self.resolve(head) if text else None
        return self._below(parent, name) if parent is not None else None

    def near(self, text: str) -> str:
        """The readable path that is most like this text: one of the same name elsewhere, else of almost the same."""
        name = text.rpartition(".")[2]
        same = [path for path in self._steps if name and path.rpartition(".")[2] == name]
        return same[0] if same else near_name(text, self._steps)

    def _below(self, parent: StepPlace, name: str) -> StepPlace | None:
        """A step of that name in a body of another; those of a foreach need their element's number."""
        place = self._program.place(paths.relative(parent.id, self._id))
        if place.statement is None and place.graph is not None:
            bodies = [(str(parent.id), place.graph)]
        else:
            every = enumerate(self._program.bodies_of(place.statement))
            bodies = [(f"{parent.id}/{number}", graph) for number, graph in every if graph.variable is None]
        for block, graph in bodies:
            if name in graph.by_key:
                return StepPlace(self._run, paths.child(block, name), None)
        return None


def _kind(subject: Subject) -> str:
    if isinstance(subject, RunDefinition):
        return "run"
    return "task" if isinstance(subject, TaskDefinition) else "server"


def _id(subject: Subject) -> str:
    if isinstance(subject, RunDefinition):
        return subject.workflow_id
    return subject.id if isinstance(subject, StepPlace) else subject.uuid
