"""A run as a graph: the program's own picture, with where its steps stand laid over it."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Annotated

from afl.operations.parameters import about
from afl.operations.run import run_store
from afl.operations.run.graph_layout import HEADER, ROW, Item, Picture, lay_out
from afl.operations.run.graph_plan import Planner, PlanNode
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_tree import Counts
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.types import ObjectType, WorkflowId

BOX_WIDTH, BOX_HEIGHT, SMALL_HEIGHT = 204.0, 50.0, 26.0
_SMALL = ("yield", "log", "assert", "case", "catch")
_KEPT_PICTURES = 64
_INDEX = re.compile(r"#\d+")


@dataclass(frozen=True)
class GraphNode:
    """A box. `parent` is the group it lies in; `state` one word for all its steps, `counts` how many stand where.

    `facet` is what it calls, whether its bodies are shown or not; `yields` what the yields inside of it give.

    `via` is who does the step, where the workflow says so: `agent:writer`, `human:finance`. A repeat has the number of
    its latest iteration; of those before it, the counts have the ones that are kept.
    """

    id: str
    parent: str
    kind: str
    title: str
    facet: str
    note: str
    line: int | None
    many: bool
    foldable: bool
    is_open: bool
    x: float
    y: float
    width: float
    height: float
    state: str
    counts: Counts
    via: str = ""
    iteration: int | None = None
    yields: str = ""


@dataclass(frozen=True)
class GraphEdge:
    """A reference; `points` lead from the lower side of one box to the upper side of another."""

    source: str
    target: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class RunGraph:
    """The picture of a run. Groups come before what lies in them."""

    run: str
    workflow: str
    state: str
    width: float
    height: float
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)


def run_graph(
    store: PersistenceAPI,
    run: str,
    *,
    opened: list[str] | None = None,
    folded: list[str] | None = None,
    narrow: Annotated[bool, about("One box below the other, for a narrow screen.")] = False,
) -> RunGraph:
    """The graph of a run's program with the states of its steps; groups are expanded or collapsed as requested."""
    found = run_store.find(store, run)
    program = program_cache(store).load(found.program_hash)
    drawn = _drawn(program, frozenset(opened or ()), frozenset(folded or ()), 1 if narrow else ROW)
    places = standing(store, found)
    nodes = [_node(each, drawn.picture, places, found) for each in drawn.nodes]
    return RunGraph(
        found.workflow_id,
        found.workflow_name,
        found.state,
        drawn.picture.width,
        drawn.picture.height,
        nodes,
        drawn.edges,
    )


@dataclass(frozen=True)
class Standing:
    """How many steps stand where, by place. `idle` are places in which all that is open waits for agents.

    `latest` has the largest index of the elements and iterations of a place that stands in no other.
    """

    counts: dict[str, Counts]
    idle: frozenset[str]
    latest: dict[str, int] = field(default_factory=dict)


def standing(store: PersistenceAPI, run: RunDefinition) -> Standing:
    """Where the steps of a run stand; thousands of them cost little."""
    workflow_id = WorkflowId(run.workflow_id)
    lines = store.get_step_lines(workflow_id)
    at_work = store.get_running_steps(workflow_id) if not run.is_over else set()
    catchers = {paths.parent(line.id) for line in lines if line.object_type == ObjectType.AND_CATCH}
    counts: dict[str, Counts] = {}
    latest: dict[str, int] = {}
    waiting: set[str] = set()
    busy: set[str] = set()
    for line in lines:
        place = place_of(line.id, workflow_id)
        found = counts.get(place)
        if found is None:
            found = counts[place] = Counts()
        word = step_word(line.state, is_worked_on=line.id in at_work, catches=line.id in catchers)
        setattr(found, word, getattr(found, word) + 1)
        if line.object_type == ObjectType.BLOCK and place.endswith("/#") and place.count("#") == 1:
            latest[place] = max(latest.get(place, 0), int(line.id.rpartition("#")[2]))
        if line.state == StepState.EVENT_TRANSMIT:
            (busy if line.id in at_work else waiting).add(place)
    return Standing(counts, frozenset(_above(waiting) - _above(busy)), latest)


def _above(places: Iterable[str]) -> set[str]:
    """The places that these lie in, each of them included."""
    found: set[str] = set()
    for place in places:
        while place not in found:
            found.add(place)
            place = paths.parent(place)
    return found


def place_of(step_id: str, workflow_id: WorkflowId) -> str:
    """A step's path without the indices of foreach elements."""
    path = paths.relative(step_id, workflow_id)
    return _INDEX.sub("#", path) if "#" in path else path


def step_word(state: str, *, is_worked_on: bool, catches: bool) -> str:
    """One of failed, caught, completed, waiting, running; a step does not wait for an agent while one is at it."""
    if state == StepState.STATEMENT_ERROR:
        return "failed"
    if catches:
        return "caught"
    if state == StepState.STATEMENT_COMPLETE:
        return "completed"
    return "waiting" if state == StepState.EVENT_TRANSMIT and not is_worked_on else "running"


@dataclass(frozen=True)
class _PlannedNode:
    plan: PlanNode
    parent: str


@dataclass(frozen=True)
class _Drawn:
    """A plan with its picture: the same for all runs of a program."""

    nodes: list[_PlannedNode]
    picture: Picture
    edges: list[GraphEdge]


_pictures: OrderedDict[tuple[str, frozenset[str], frozenset[str], int], _Drawn] = OrderedDict()
_pictures_lock = threading.Lock()


def _drawn(program: Program, opened: frozenset[str], folded: frozenset[str], across: int) -> _Drawn:
    key = (program.hash, opened, folded, across)
    with _pictures_lock:
        found = _pictures.get(key)
    if found is None:
        found = _draw(program, opened, folded, across)
        with _pictures_lock:
            _pictures[key] = found
            while len(_pictures) > _KEPT_PICTURES:
                _pictures.popitem(last=False)
    return found


def _draw(program: Program, opened: frozenset[str], folded: frozenset[str], across: int) -> _Drawn:
    root = Planner(program, opened, folded).plan()
    picture = lay_out([_item(each) for each in root.children], root.edges, across)
    edges = [GraphEdge(route.source, route.target, route.points) for route in picture.routes]
    return _Drawn(list(_flat(root)), picture, edges)


def _flat(node: PlanNode) -> Iterable[_PlannedNode]:
    """All nodes, a group before its children."""
    for child in node.children:
        yield _PlannedNode(child, node.id)
        yield from _flat(child)


def _item(node: PlanNode) -> Item:
    if node.is_open:
        wide = 7.5 * max(len(node.title) + len(_said(node)), 12) + 70
        inside = [_item(each) for each in node.children]
        return Item(node.id, max(BOX_WIDTH, min(wide, 380.0)), HEADER, inside, node.edges)
    if node.kind in _SMALL:
        return Item(node.id, _small_width(node), SMALL_HEIGHT)
    return Item(node.id, BOX_WIDTH, BOX_HEIGHT)


def _said(node: PlanNode) -> str:
    """About what stands behind the title of a group."""
    return f"{node.facet.rpartition('.')[2]}{node.note and f' · {node.note}'}{node.yields and f' → {node.yields}'}"


def _small_width(node: PlanNode) -> float:
    """A case is as wide as its condition and what it yields, within reason."""
    if node.kind in ("case", "catch"):
        text = f"{node.title} → {node.yields}" if node.yields else node.title
        return min(max(108.0, 7.2 * len(text) + 38), 300.0)
    return 84.0


def _node(planned: _PlannedNode, picture: Picture, places: Standing, run: RunDefinition) -> GraphNode:
    plan, box = planned.plan, picture.boxes[planned.plan.id]
    counts = _summed(places.counts, plan.counted)
    return GraphNode(
        plan.id,
        planned.parent,
        plan.kind,
        plan.title,
        plan.facet,
        plan.note,
        plan.line,
        plan.many,
        plan.foldable,
        plan.is_open,
        round(box.x, 1),
        round(box.y, 1),
        round(box.width, 1),
        round(box.height, 1),
        _state(plan, counts, places, run),
        counts,
        plan.via,
        places.latest.get(plan.counted[0]) if plan.is_repeat else None,
        plan.yields,
    )


def _state(plan: PlanNode, counts: Counts, places: Standing, run: RunDefinition) -> str:
    """The state of a node's own steps; one that only has open steps inside is as busy as those are."""
    own = counts if plan.kind == "bundle" else places.counts.get(plan.id, counts)
    word = state_word(own, run.state)
    return "waiting" if word == "running" and plan.id in places.idle else word


def _summed(places: dict[str, Counts], counted: Sequence[str]) -> Counts:
    if len(counted) == 1:
        return places.get(counted[0]) or Counts()
    whole = Counts()
    for each in counted:
        found = places.get(each)
        if found is not None:
            whole.completed += found.completed
            whole.failed += found.failed
            whole.waiting += found.waiting
            whole.running += found.running
            whole.caught += found.caught
    return whole


def state_word(counts: Counts, run_state: str) -> str:
    """The one word for all steps of a place; what a canceled run left open is canceled."""
    if (counts.waiting or counts.running) and run_state == RunnerState.CANCELED:
        return "failed" if counts.failed else "canceled"
    return "running" if counts.running and not counts.failed else counts.state
