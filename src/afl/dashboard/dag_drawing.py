"""A DAG as boxes and lines, in the same layout as the graph of a run: layers from top to bottom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.dag import Dag
from afl.operations.run.graph_layout import Point, arrange

BOX_WIDTH, BOX_HEIGHT = 184, 46
_MARGIN = 16


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
class Drawing:
    """All of it, with a margin around."""

    width: float
    height: float
    boxes: list[Box]
    lines: list[Line]


def draw(dag: Dag) -> Drawing:
    """The picture of a DAG."""
    nodes = dag.order
    number = {node: at for at, node in enumerate(nodes)}
    edges = [(number[source], number[node]) for node in nodes for source in dag.dependencies(node)]
    found = arrange([(BOX_WIDTH, BOX_HEIGHT)] * len(nodes), edges)
    boxes = [Box(node, x + _MARGIN, y + _MARGIN) for node, (x, y) in zip(nodes, found.positions, strict=True)]
    lines = [
        Line(nodes[source], nodes[target], _curve(points))
        for (source, target), points in found.routes.items()
    ]
    return Drawing(found.width + 2 * _MARGIN, found.height + 2 * _MARGIN, boxes, lines)


def _curve(points: Sequence[Point]) -> str:
    """Through all points, upright at each."""
    (x, y), *rest = points
    path = f"M{x + _MARGIN:g} {y + _MARGIN:g}"
    for to_x, to_y in rest:
        middle = (y + to_y) / 2 + _MARGIN
        path += (
            f"C{x + _MARGIN:g} {middle:g} {to_x + _MARGIN:g} {middle:g} {to_x + _MARGIN:g} {to_y + _MARGIN:g}"
        )
        x, y = to_x, to_y
    return path
