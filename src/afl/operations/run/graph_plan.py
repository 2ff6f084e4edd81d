"""What the graph of a run shows: the nodes of a program with their labels, nested and folded."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.program.policies import BRIDGES, NAMESPACE
from afl.runtime.program.program import Program
from afl.runtime.types import ObjectType

_CASE = re.compile(r"case\s+(.+?)\s*=>", re.DOTALL)
_LONGEST = 2_000  # characters of a condition that are looked at


def case_title(program: Program, when: DependencyGraph, number: int) -> str:
    """A case as it was written: `case $.n > 250`; without the source, `case 1`."""
    case = when.cases[number]
    if case.condition is None:
        return "case _"
    return f"case {_condition(program, case.graph.location) or number + 1}"


def _condition(program: Program, location: Mapping[str, object] | None) -> str:
    """A case's condition; empty if the source was not stored, or has something else there."""
    line, column = (location or {}).get("line"), (location or {}).get("column")
    lines = program.source_text.split("\n")
    if not isinstance(line, int) or not isinstance(column, int) or not 0 < line <= len(lines):
        return ""
    start = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    found = _CASE.match(program.source_text[start : start + _LONGEST])
    return " ".join(found[1].split()) if found else ""


def doer(statement: StatementDefinition, called: Declaration | None) -> str:
    """Who does a step where a bridge says so, as tasks have it in `via`: `human:finance`; else empty."""
    if statement.child_run is not None:
        return "child run"
    for uses in (statement.mixins, called.mixins if called is not None else ()):
        for use in uses:
            kind = BRIDGES.get(use.target.removeprefix(NAMESPACE))
            if kind is not None and use.target.startswith(NAMESPACE):
                return f"{kind}:{use.constant_name or ''}".rstrip(":")
    return ""


BUNDLE = 100  # statements in a bundle
UNBUNDLED = 150  # a block of at most so many statements is shown as it is
DEFAULT_VISIBLE = 90  # groups are open at first while no more nodes than this are to be seen
MOST_VISIBLE = 1_500  # whatever somebody opens, no more are drawn

_SYSTEM = {ObjectType.SYS_LOG: "log", ObjectType.SYS_ASSERT: "assert"}
_Statements = tuple[StatementDefinition, ...]


@dataclass
class PlanNode:
    """A node of the plan. `kind` is step, event, yield, log, assert, block, foreach, repeat, when, case, catch, bundle.

    `counted` are the places whose steps it counts: its own, the elements of a foreach, the members of a bundle. Yields
    are no nodes: `yields` says what those of a block give. A `plain` group has nothing else in it than a catch with
    yields, and is folded at first. `via` is who does the step, where a bridge says.
    """

    id: str
    kind: str
    title: str
    facet: str = ""
    note: str = ""
    via: str = ""
    yields: str = ""
    line: int | None = None
    counted: tuple[str, ...] = ()
    foldable: bool = False
    plain: bool = False
    is_open: bool = False
    children: list[PlanNode] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)

    @property
    def is_repeat(self) -> bool:
        """Whether it stands for a repeat."""
        return self.kind == "repeat" or self.note.startswith("repeat ")

    @property
    def many(self) -> bool:
        """Whether several steps of one run may stand there."""
        return self.kind == "bundle" or "#" in self.counted[0]


@dataclass
class _Spot:
    """A node, and what is needed to open it: it owns bodies, is a block, or bundles statements of one."""

    node: PlanNode
    statement: StatementDefinition | None = None
    graph: DependencyGraph | None = None
    members: _Statements = ()
    base: str = ""


class Planner:
    """Makes the plan of one program, with some groups open and others folded."""

    def __init__(self, program: Program, opened: Collection[str] = (), folded: Collection[str] = ()) -> None:
        self._program = program
        self._opened = frozenset(opened)
        self._folded = frozenset(folded)
        self._visible = 0

    def plan(self) -> PlanNode:
        """The workflow as a group whose children are the nodes to be seen; those further in are opened last."""
        root = PlanNode("", "step", self._program.workflow.name, counted=("",), foldable=True)
        waiting = [_Spot(root)]
        for spot in waiting:  # grows while it is walked
            node = spot.node
            inner = self._contents(spot) if self._may_open(node) else []
            if node.id and self._visible + len(inner) > self._room(node):
                node.children, node.edges, inner = [], [], []
            node.is_open = bool(inner)
            self._visible += len(inner)
            waiting += [each for each in inner if each.node.foldable]
        return root

    def _may_open(self, node: PlanNode) -> bool:
        if node.id in self._folded:
            return False
        return node.id in self._opened or not (node.plain or node.kind == "bundle")

    def _room(self, node: PlanNode) -> int:
        return MOST_VISIBLE if node.id in self._opened else DEFAULT_VISIBLE

    def _contents(self, spot: _Spot) -> list[_Spot]:
        if spot.members:
            return self._statements(spot.node, spot.base, spot.members)
        if spot.graph is not None:
            return self._block(spot.node, spot.node.id, spot.graph)
        return self._bodies(spot.node, spot.statement)

    def _bodies(self, node: PlanNode, statement: StatementDefinition | None) -> list[_Spot]:
        """The bodies of a step; a single one shows its statements without a box of its own, unless nothing else says
        that it is repeated. A catch is a branch beside them: either they complete, or it runs."""
        bodies = self._program.bodies_of(statement)
        catch = self._program.catch_of(statement)
        unsaid = not node.id and any(body.until is not None for body in bodies)
        if len(bodies) == 1 and catch is None and not unsaid:
            return self._block(node, _join(node.id, "0"), bodies[0])
        found = []
        for number, body in enumerate(bodies):
            title = "body" if len(bodies) == 1 else f"body {number + 1}"
            found.append(_Spot(_section(node, _join(node.id, str(number)), body, title), graph=body))
        if catch is not None:
            found.append(_Spot(_section(node, _join(node.id, "!"), catch, "catch"), graph=catch))
        return found

    def _block(self, node: PlanNode, path: str, graph: DependencyGraph) -> list[_Spot]:
        """What stands in a block: statements, or the cases of a when."""
        if graph.cases:
            return [self._case(node, f"{path}/?{at}", at, graph) for at in range(len(graph.cases))]
        inside = f"{path}/#" if graph.variable is not None else path
        if len(graph.by_key) > UNBUNDLED:
            return _bundles(node, inside, _in_reach_order(graph))
        return self._statements(node, inside, tuple(graph.by_key.values()), graph)

    def _case(self, owner: PlanNode, place: str, number: int, when: DependencyGraph) -> _Spot:
        case = when.cases[number]
        title = case_title(self._program, when, number)
        made = PlanNode(place, "case", title, line=_line(case.graph.location), counted=(place,))
        made.foldable, made.yields = not _is_plain(case.graph), _yields(case.graph, owner.facet)
        owner.children.append(made)
        return _Spot(made, graph=case.graph)

    def _statements(
        self, node: PlanNode, path: str, statements: _Statements, graph: DependencyGraph | None = None
    ) -> list[_Spot]:
        shown = [each for each in statements if not each.is_yield]
        if not (shown or node.id):
            shown = list(statements)  # a workflow that has nothing else
        number = {each.key: at for at, each in enumerate(shown)}
        found = []
        for each in shown:
            made = self._statement(_join(path, each.key), each)
            node.children.append(made)
            found.append(_Spot(made, each))
            node.edges += [(number[need], number[each.key]) for need in each.needs if need in number]
        for need, bodies in (graph.body_needs if graph is not None else {}).items():
            node.edges += [(number[need], number[key]) for key, _ in bodies]
        return found

    def _statement(self, place: str, statement: StatementDefinition) -> PlanNode:
        declaration = self._program.declarations.get(statement.facet_name)
        is_outside = statement.child_run is not None or (declaration is not None and declaration.is_event)
        kind = "event" if is_outside else "step"
        kind = "yield" if statement.is_yield else _SYSTEM.get(statement.object_type, kind)
        title = statement.name if kind in ("event", "step") else kind
        made = PlanNode(
            place, kind, title, statement.facet_name, line=_line(statement.location), counted=(place,)
        )
        made.via = doer(statement, declaration) if kind == "event" else ""
        self._tell_bodies(made, statement)
        return made

    def _tell_bodies(self, node: PlanNode, statement: StatementDefinition) -> None:
        """What a box tells of the bodies of its step, whether they are shown or not."""
        bodies = self._program.bodies_of(statement)
        catch = self._program.catch_of(statement)
        is_single = len(bodies) == 1 and catch is None
        node.foldable = catch is not None or len(bodies) > 1 or any(not _is_plain(body) for body in bodies)
        node.plain = not bodies and catch is not None and _is_plain(catch)
        node.note = "catch" if catch is not None else ""
        node.yields = _yields(bodies[0], node.facet) if is_single else ""
        if is_single and bodies[0].loop:
            node.note = bodies[0].loop
            node.counted = (f"{_join(node.id, '0')}/#",)


def _section(owner: PlanNode, path: str, graph: DependencyGraph, title: str) -> PlanNode:
    """The box of one body of several."""
    kind, counted = "catch" if title == "catch" else "block", path
    if graph.loop:
        kind, title, counted = graph.loop.partition(" ")[0], graph.loop, f"{path}/#"
    elif graph.cases and kind == "block":
        kind = title = "when"
    made = PlanNode(
        path,
        kind,
        title,
        line=_line(graph.location),
        counted=(counted,),
        foldable=not _is_plain(graph),
        yields=_yields(graph, owner.facet),
    )
    owner.children.append(made)
    return made


def _bundles(owner: PlanNode, path: str, statements: _Statements) -> list[_Spot]:
    """Consecutive statements together: references between bundles lead forward, as those of their members do."""
    statements = tuple(each for each in statements if not each.is_yield)
    found: list[_Spot] = []
    bundle_of: dict[str, int] = {}
    for number, start in enumerate(range(0, len(statements), BUNDLE)):
        members = statements[start : start + BUNDLE]
        bundle_of |= dict.fromkeys((each.key for each in members), number)
        title = f"{members[0].name or members[0].key} … {members[-1].name or members[-1].key}"
        made = PlanNode(
            _join(path, f"*{number}"), "bundle", title, note=f"{len(members)} statements", foldable=True
        )
        made.counted = tuple(_join(path, each.key) for each in members)
        owner.children.append(made)
        found.append(_Spot(made, members=members, base=path))
    joined = {
        (bundle_of[need], bundle_of[each.key])
        for each in statements
        for need in each.needs
        if need in bundle_of
    }
    owner.edges += sorted(edge for edge in joined if edge[0] != edge[1])
    return found


def _is_plain(graph: DependencyGraph) -> bool:
    return not graph.cases and all(each.is_yield for each in graph.by_key.values())


def _yields(graph: DependencyGraph, own: str) -> str:
    """What the yields of a block give: `text, words` to the facet it belongs to, `Gather.failed` to another one."""
    names: dict[str, None] = {}
    for each in graph.by_key.values():
        if each.is_yield:
            to = "" if each.facet_name == own or not own else f"{each.facet_name.rpartition('.')[2]}."
            names |= dict.fromkeys(f"{to}{arg.get('name')}" for arg in each.args if arg.get("name"))
    return ", ".join(names)


def _in_reach_order(graph: DependencyGraph) -> _Statements:
    """Each statement after those it refers to; ones on a cycle, which never run, at the end."""
    ordered = [graph.statements[each] for each in graph.topological_order()]
    known = {each.key for each in ordered}
    return (*ordered, *(each for each in graph.by_key.values() if each.key not in known))


def _join(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


def _line(location: dict[str, object] | None) -> int | None:
    line = (location or {}).get("line")
    return line if isinstance(line, int) else None
