"""Pictures: the graph of a run and the DAG of a fleet run as SVG."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import urlencode

from afl.dashboard.wording import run_url, step_url, tone
from afl.kernel.dag import Dag
from afl.operations.run.graph_layout import arrange
from afl.operations.run.run_graph import GraphEdge, GraphNode, RunGraph
from afl.operations.run.run_tree import Counts

MARGIN = 24
_FACET = 30
_LARGE = 30  # boxes of less height have a title only
_LETTER = 7.2  # about the width of one, in a title
_SMALL_LETTER = 6.2


@dataclass(frozen=True)
class DrawnNode:
    """A node with its texts as they fit into its box."""

    node: GraphNode
    href: str
    toggle: str
    title: str
    facet: str
    tone: str
    counts: str
    bar: list[tuple[str, float, float]]
    label: str


@dataclass(frozen=True)
class Drawing:
    """All of it; `query` is how the page asks for the same groups again."""

    run: str
    width: float
    height: float
    nodes: list[DrawnNode]
    edges: list[tuple[GraphEdge, str]]
    query: str


@dataclass(frozen=True)
class GraphQuery:
    """Which graph an address asks for: groups that somebody opened or folded, and whether the screen is narrow."""

    opened: Sequence[str] = ()
    folded: Sequence[str] = ()
    narrow: bool = False

    def encoded(self, **more: str) -> str:
        """As the query of an address."""
        pairs = [*(("open", each) for each in self.opened), *(("fold", each) for each in self.folded)]
        return urlencode([*more.items(), *pairs, *([("narrow", "1")] if self.narrow else [])])

    def toggled(self, graph: RunGraph, node: GraphNode) -> str:
        """The address with one group more open, or more folded."""
        now_open = [each for each in self.opened if each != node.id] + ([] if node.is_open else [node.id])
        now_folded = [each for each in self.folded if each != node.id] + ([node.id] if node.is_open else [])
        return f"{run_url(graph.run)}?{GraphQuery(now_open, now_folded, self.narrow).encoded(view='graph')}"


def draw(graph: RunGraph, query: GraphQuery) -> Drawing:
    """The drawing of a graph."""
    nodes = [_node(graph, each, query) for each in graph.nodes]
    edges = [(edge, curve(edge.points)) for edge in graph.edges]
    size = (graph.width + 2 * MARGIN, graph.height + 2 * MARGIN)
    return Drawing(graph.run, *size, nodes, edges, query.encoded())


def states(graph: RunGraph) -> dict[str, Any]:
    """What the browser needs to bring a drawing up to date."""
    return {
        "state": graph.state,
        "nodes": [
            [each.id, tone(each.state), each.state, counts_text(each), bar(each.counts)]
            for each in graph.nodes
        ],
    }


def _node(graph: RunGraph, node: GraphNode, query: GraphQuery) -> DrawnNode:
    title = _cut(_title(node), _title_room(node))
    return DrawnNode(
        node=node,
        href=step_url(graph.run, node.id) if node.kind != "bundle" else "",
        toggle=query.toggled(graph, node) if node.foldable else "",
        title=title,
        facet=_cut(_facet(node), _facet_room(node, title)),
        tone=tone(node.state),
        counts=counts_text(node),
        bar=bar(node.counts) if node.many else [],
        label=_label(node),
    )


def _is_small(node: GraphNode) -> bool:
    return node.height < _LARGE and not node.is_open


def _title(node: GraphNode) -> str:
    """A small box has no second line: what it yields stands beside its title."""
    return f"{node.title} → {node.yields}" if _is_small(node) and node.yields else node.title


def _facet(node: GraphNode) -> str:
    """What a node calls, who does it, how it is repeated or caught, and what it yields."""
    if node.kind == "bundle":
        return node.note
    facet = node.facet.rpartition(".")[2]
    parts = ("" if facet == node.title else facet, node.via.replace(":", " ", 1), node.note)
    text = " · ".join(part for part in parts if part)
    return f"{text} → {node.yields}".strip() if node.yields else text


def _facet_room(node: GraphNode, title: str) -> int:
    """In a group it stands behind the title, before the count."""
    if not node.is_open:
        return _FACET
    taken = _LETTER * (len(title) + len(counts_text(node))) + 26 + 8 + 36
    return max(0, int((node.width - taken) / _SMALL_LETTER))


def _title_room(node: GraphNode) -> int:
    """How many letters of a title fit beside the dot, and in a large box beside the count and the knob."""
    if _is_small(node):
        return int((node.width - 34) / _LETTER)
    total, told = f"{node.counts.total:,}", counts_text(node)
    count = 2 * len(total) + 1 if "/" in told else len(told)  # as wide as it gets while it changes
    room = node.width - (60 if node.foldable else 38)
    return max(8, int(room / _LETTER) - count)


def counts_text(node: GraphNode) -> str:
    """How far a node of many steps is: `12/24`, or `24` when all are over; of a repeat, its latest iteration."""
    counts = node.counts
    if node.iteration is not None:
        return f"iteration {node.iteration:,}"
    if not node.many or not counts.total:
        return ""
    over = counts.completed + counts.failed + counts.caught
    return f"{over:,}/{counts.total:,}" if over < counts.total else f"×{counts.total:,}"


def bar(counts: Counts) -> list[tuple[str, float, float]]:
    """The shares of the states as (tone, from, width), in percent."""
    if not counts.total:
        return []
    found, at = [], 0.0
    for word in ("completed", "caught", "failed", "running", "waiting"):
        share = 100 * getattr(counts, word) / counts.total
        if share:
            found.append((tone(word), round(at, 2), round(share, 2)))
        at += share
    return found


def curve(points: Sequence[tuple[float, float]]) -> str:
    """Points as a smooth line that leaves and enters boxes straight."""
    moved = [(x + MARGIN, y + MARGIN) for x, y in points]
    text = f"M{moved[0][0]:g} {moved[0][1]:g}"
    for (x0, y0), (x1, y1) in pairwise(moved):
        half = (y1 - y0) / 2
        text += f"L{x1:g} {y1:g}" if x0 == x1 else f"C{x0:g} {y0 + half:g} {x1:g} {y1 - half:g} {x1:g} {y1:g}"
    return text


def _label(node: GraphNode) -> str:
    """What a screen reader says."""
    parts = [node.title, node.facet, node.via.replace(":", " ", 1), node.note, node.state]
    parts += [f"yields {node.yields}"] if node.yields else []
    if node.many and node.counts.total:
        told = [
            (getattr(node.counts, word), word)
            for word in ("completed", "failed", "caught", "running", "waiting")
        ]
        parts.append(", ".join(f"{amount} {word}" for amount, word in told if amount))
    return ", ".join(part for part in parts if part)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


BOX_WIDTH, BOX_HEIGHT = 184, 46


@dataclass(frozen=True, slots=True)
class Box:
    """A node's place; x and y are its upper left corner."""

    node: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Line:
    """From a node to one that waits for it; `path` is the curve."""

    source: str
    target: str
    path: str


@dataclass(frozen=True, slots=True)
class DagDrawing:
    """All of it, with a margin around."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[Line]


def draw_dag(dag: Dag) -> DagDrawing:
    """The picture of a DAG."""
    nodes = dag.order
    number = {node: at for at, node in enumerate(nodes)}
    edges = [(number[source], number[node]) for node in nodes for source in dag.dependencies(node)]
    found = arrange([(BOX_WIDTH, BOX_HEIGHT)] * len(nodes), edges)
    boxes = [Box(node, x + MARGIN, y + MARGIN) for node, (x, y) in zip(nodes, found.positions, strict=True)]
    lines = [
        Line(nodes[source], nodes[target], curve(points)) for (source, target), points in found.routes.items()
    ]
    return DagDrawing(found.width + 2 * MARGIN, found.height + 2 * MARGIN, boxes, lines)
