"""A run's steps as a tree that stays readable: blocks are left out, and the elements of a foreach are folded.

All steps that stand at the same place of the program (their paths differ only in foreach indices) are one node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from afl.kernel.clock import wall_ms
from afl.operations.run.graph_plan import case_title
from afl.operations.run.run_log import entries
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_summary import get_budget, get_usage, usage_by
from afl.operations.run.step_work import Work, work_of
from afl.runtime.entities import RunDefinition
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import Budget, UsageTotal, total
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition, StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId

_INDEX = re.compile(r"#\d+")


@dataclass
class Counts:
    """How many steps of a node are in each state. `waiting`: for an agent; `caught`: failed, and continued."""

    completed: int = 0
    failed: int = 0
    waiting: int = 0
    running: int = 0
    caught: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.completed + self.failed + self.waiting + self.running + self.caught

    @property
    def state(self) -> str:
        """The one word for all: failed, waiting, running, caught, completed, or not begun."""
        for word in ("failed", "waiting", "running", "caught"):
            if getattr(self, word):
                return word
        return "completed" if self.completed else "not begun"


@dataclass
class StepNode:
    """One place of the program in a run, with all its steps. Times are milliseconds; `ended` is 0 while open.

    `starts_runs` says that its steps start child runs.
    """

    path: str
    name: str
    facet: str = ""
    counts: Counts = field(default_factory=Counts)
    started: int = 0
    ended: int = 0
    error: StepFailure | None = None
    caught: str = ""
    work: Work | None = None
    usage: UsageTotal | None = None
    children: list[StepNode] = field(default_factory=list)
    starts_runs: bool = False

    def duration_ms(self, now: int) -> int:
        """From the first beginning to the last end, or until now."""
        return max(0, (self.ended or now) - self.started)


@dataclass(frozen=True)
class RunTree:
    """A run and its steps, with what models used in it and may use."""

    run: RunDefinition
    root: StepNode
    steps: int
    seen: int
    usage: UsageTotal | None = None
    budget: Budget | None = None


def show(store: PersistenceAPI, run: RunDefinition) -> RunTree:
    """The tree of a run as it stands now."""
    workflow_id = WorkflowId(run.workflow_id)
    program = program_cache(store).load(run.program_hash)
    steps = store.get_step_lines(workflow_id)
    seen = wall_ms() if not run.is_over else run.ended
    tree = _Tree(program, run)
    root = tree.build(steps, store)
    logs = () if run.is_over else entries(store, run.workflow_id)
    for path, work in work_of(store.get_tasks_by_workflow(workflow_id), logs, tree.places).items():
        tree.nodes[path].work = work
    records = get_usage(store, run.workflow_id)
    for path, usage in usage_by(records, tree.places).items():
        tree.nodes[path].usage = usage
    spent = total(records) if records else None
    return RunTree(run, root, len(steps), seen, spent, get_budget(store, run.workflow_id))


_LOOPS = (ObjectType.AND_MAP, ObjectType.AND_REPEAT)
_SAID = {"!": "catch", ">": "yield", "~": "sys"}


class _Tree:
    """Builds the tree of one run."""

    def __init__(self, program: Program, run: RunDefinition) -> None:
        self._program = program
        self._run = run
        self._workflow_id = WorkflowId(run.workflow_id)
        self._catchers: set[StepId] = set()
        self.nodes: dict[str, StepNode] = {}
        self.places: dict[str, str] = {}
        self._loops: set[str] = set()
        self._told: set[StepId] = (
            set()
        )  # the few steps whose values are told: to read all takes ten times as long

    def build(self, steps: Sequence[StepLine], store: PersistenceAPI) -> StepNode:
        self._catchers = {paths.parent(step.id) for step in steps if step.object_type == ObjectType.AND_CATCH}
        for step in steps:
            self._add(step)
        for found in store.get_steps(list(self._told)):
            self._tell(self.nodes[self.places[found.id]], found)
        root = self.nodes.get("") or self._unbegun()
        for path, node in self.nodes.items():
            if path and self._is_shown(node):
                self._holder(path).children.append(node)
        return root

    def _unbegun(self) -> StepNode:
        """A run that was submitted has no step before somebody evaluates it."""
        return StepNode("", self._program.workflow.name, started=self._run.created)

    def _tell(self, node: StepNode, step: StepDefinition) -> None:
        """What a node says of one of its steps."""
        if step.object_type == ObjectType.AND_REPEAT and "#" not in node.path:
            node.name += _iterations(step)
        error = step.transition.error
        if step.is_error:
            node.error = error if isinstance(error, StepFailure) else None
        elif step.id in self._catchers:
            node.caught = str(step.get_attribute("error"))

    def _add(self, step: StepLine) -> None:
        path = _INDEX.sub("#", paths.relative(step.id, self._workflow_id))
        self.places[step.id] = path
        node = self.nodes.get(path)
        if node is None:
            node = self.nodes[path] = StepNode(path, self._name(path, step), step.facet_name)
            node.started = step.started
            if step.object_type in _LOOPS:
                self._loops.add(path)
                if step.object_type == ObjectType.AND_REPEAT and "#" not in path:
                    self._told.add(step.id)
            statement = self._program.place(path).statement
            node.starts_runs = statement is not None and statement.child_run is not None
        if _count(node.counts, step.state, step.id in self._catchers):
            self._told.add(step.id)
        node.started = min(node.started, step.started)
        node.ended = 0 if _is_open(node) or not step.ended else max(node.ended, step.ended)

    def _name(self, path: str, step: StepLine) -> str:
        if not path:
            return self._program.workflow.name
        key = paths.key(path)
        if step.object_type in _LOOPS:
            graph = self._program.place(path).graph
            return graph.loop if graph is not None else "loop"
        if key.startswith("?"):
            graph = self._program.place(paths.parent(path)).graph
            position = int(key[1:])
            return case_title(self._program, graph, position) if graph is not None else f"case {position + 1}"
        return f"with {key[1:]}" if key.startswith("@") else _SAID.get(key[0], key)

    def _is_shown(self, node: StepNode) -> bool:
        """Blocks only group, and a yield is of interest only when it went wrong."""
        key = paths.key(node.path)
        if key.isdigit():
            return node.path in self._loops
        return key != "#" and (key[0] != ">" or node.error is not None)

    def _holder(self, path: str) -> StepNode:
        above: str = paths.parent(path)
        while above:
            node = self.nodes.get(above)
            if node is not None and self._is_shown(node):
                return node
            above = paths.parent(above)
        return self.nodes[""]


def _iterations(step: StepDefinition) -> str:
    """How far a repeat is."""
    if step.progress is None:
        return ""
    opened = step.progress.opened
    return f", {opened:,} iterations" if step.is_terminal else f", iteration {opened - 1:,}"


def _count(counts: Counts, state: str, catches: bool) -> bool:
    """Count one more step; whether it is the first that failed, or whose failure was caught."""
    if state == StepState.STATEMENT_ERROR:
        counts.failed += 1
        return counts.failed == 1
    if catches:
        counts.caught += 1
        return counts.caught == 1
    if state == StepState.STATEMENT_COMPLETE:
        counts.completed += 1
    elif state == StepState.EVENT_TRANSMIT:
        counts.waiting += 1
    else:
        counts.running += 1
    return False


def _is_open(node: StepNode) -> bool:
    return bool(node.counts.waiting or node.counts.running)
