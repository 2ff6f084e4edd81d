"""Where the boxes of a graph go: layers from top to bottom, groups inside groups, edges around what they pass.

Pure and deterministic: the same graph is always the same picture. Siblings never overlap, a child lies inside its
group, and an edge ends below where it begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Point = tuple[float, float]

GAP_X, GAP_Y = 22, 34
PADDING, HEADER = 14, 34
ROW = 8  # boxes side by side; more of one layer go below each other
_SWEEPS = 6
_MOST_BENDS = 600  # edges that pass many layers get bends of their own only while these are few
_BEND_WIDTH = 10.0


@dataclass
class Item:
    """A box, or with `items` a group of boxes; edges join siblings by their position in `items`."""

    id: str
    width: float
    height: float
    items: list[Item] = field(default_factory=list)
    edges: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Rect:
    """Where a box is, from the upper left corner of the whole."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class Route:
    """An edge as points from the lower side of one box to the upper side of another."""

    source: str
    target: str
    points: tuple[Point, ...]


@dataclass
class Picture:
    """All boxes by id, and all edges."""

    width: float = 0.0
    height: float = 0.0
    boxes: dict[str, Rect] = field(default_factory=dict)
    routes: list[Route] = field(default_factory=list)


def lay_out(items: list[Item], edges: list[tuple[int, int]], across: int = ROW) -> Picture:
    """The picture of top-level items; at most about so many boxes stand side by side."""
    whole = _Placed(Item("", 0, 0, items, edges), across=across)
    picture = Picture(whole.width, whole.height)
    whole.draw(picture, 0, 0)
    return picture


class _Placed:
    """An item whose inside is arranged: its size is known."""

    def __init__(self, item: Item, *, top: bool = True, across: int) -> None:
        self.item = item
        self.inside = [_Placed(each, top=False, across=across) for each in item.items]
        self.width, self.height = item.width, item.height
        self.dx = self.dy = 0.0
        self.arrangement: Arrangement | None = None
        if self.inside:
            sizes = [(each.width, each.height) for each in self.inside]
            self.arrangement = arrange(sizes, item.edges, across)
            self.dx, self.dy = (0.0, 0.0) if top else (float(PADDING), float(HEADER))
            margin = 0 if top else PADDING
            self.width = max(item.width, self.arrangement.width + 2 * self.dx)
            self.height = self.arrangement.height + self.dy + margin
            self.dx += (self.width - 2 * self.dx - self.arrangement.width) / 2

    def draw(self, picture: Picture, x: float, y: float) -> None:
        if self.item.id:
            picture.boxes[self.item.id] = Rect(x, y, self.width, self.height)
        if self.arrangement is None:
            return
        left, top = x + self.dx, y + self.dy
        for each, (at_x, at_y) in zip(self.inside, self.arrangement.positions, strict=True):
            each.draw(picture, left + at_x, top + at_y)
        for (source, target), points in self.arrangement.routes.items():
            moved = tuple((left + px, top + py) for px, py in points)
            picture.routes.append(Route(self.inside[source].item.id, self.inside[target].item.id, moved))


@dataclass(frozen=True)
class Arrangement:
    """Positions of boxes by number, and the points of every edge."""

    width: float
    height: float
    positions: list[Point]
    routes: dict[tuple[int, int], list[Point]]


def arrange(
    sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], across: int = ROW
) -> Arrangement:
    """Boxes of these sizes in layers, so that every edge leads downwards."""
    forward = _without_cycles(len(sizes), edges)
    rows = _rows(len(sizes), forward, across)
    return _Layers(sizes, forward, rows).arranged()


def _without_cycles(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The edges once each, without those that lead back; programs have none, but a picture must not depend on it."""
    wanted = sorted({(source, target) for source, target in edges if source != target})
    following: list[list[int]] = [[] for _ in range(count)]
    for source, target in wanted:
        following[source].append(target)
    place: dict[int, int] = {}
    state = [0] * count
    for start in range(count - 1, -1, -1):
        stack = [(start, 0)]
        while stack:
            node, at = stack.pop()
            if at == 0:
                if state[node]:
                    continue
                state[node] = 1
            if at < len(following[node]):
                stack.append((node, at + 1))
                if not state[following[node][at]]:
                    stack.append((following[node][at], 0))
            elif state[node] == 1:
                state[node] = 2
                place[node] = -len(place)
    return [(source, target) for source, target in wanted if place[source] < place[target]]


def _rows(count: int, edges: Sequence[tuple[int, int]], across: int) -> list[list[int]]:
    """Boxes by layer: each below all that lead to it. Layers that are too wide become several rows."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        before[target].append(source)
        after[source].append(target)
    open_edges = [len(each) for each in before]
    ready = [node for node in range(count) if not open_edges[node]]
    rank = [0] * count
    for node in ready:
        for target in after[node]:
            rank[target] = max(rank[target], rank[node] + 1)
            open_edges[target] -= 1
            if not open_edges[target]:
                ready.append(target)
    layers: dict[int, list[int]] = {}
    for node in range(count):
        layers.setdefault(rank[node], []).append(node)
    rows = []
    most = across + across // 4  # a few more than that are no reason for a row of their own
    for number in sorted(layers):
        layer = layers[number]
        size = len(layer) if len(layer) <= most else across
        rows += [layer[start : start + size] for start in range(0, len(layer), size)]
    return rows


class _Layers:
    """Rows of vertices: boxes, and the bends of edges that pass a row."""

    def __init__(
        self, sizes: Sequence[tuple[float, float]], edges: Sequence[tuple[int, int]], rows: list[list[int]]
    ) -> None:
        self._sizes = sizes
        self._edges = edges
        self._rows = [list(row) for row in rows]
        self._row_of = {node: number for number, row in enumerate(rows) for node in row}
        self._width = [width for width, _ in sizes]
        self._bends: dict[tuple[int, int], list[int]] = {}
        self._up: list[list[int]] = [[] for _ in sizes]
        self._down: list[list[int]] = [[] for _ in sizes]
        self._add_bends()
        self._x = [0.0] * len(self._width)

    def arranged(self) -> Arrangement:
        self._order()
        self._place()
        tops, bottoms = self._heights()
        left = min((self._x[node] - self._width[node] / 2 for row in self._rows for node in row), default=0.0)
        right = max(
            (self._x[node] + self._width[node] / 2 for row in self._rows for node in row), default=0.0
        )
        self._x = [x - left for x in self._x]
        positions = [
            (round(self._x[node] - self._width[node] / 2, 1), tops[self._row_of[node]])
            for node in range(len(self._sizes))
        ]
        routes = {edge: self._route(edge, tops, bottoms) for edge in self._edges}
        return Arrangement(round(right - left, 1), bottoms[-1] if bottoms else 0.0, positions, routes)

    def _add_bends(self) -> None:
        spans = sum(self._row_of[target] - self._row_of[source] - 1 for source, target in self._edges)
        for source, target in self._edges:
            chain: list[int] = []
            if spans <= _MOST_BENDS:
                for number in range(self._row_of[source] + 1, self._row_of[target]):
                    bend = len(self._width)
                    self._width.append(_BEND_WIDTH)
                    self._up.append([])
                    self._down.append([])
                    self._rows[number].append(bend)
                    self._row_of[bend] = number
                    chain.append(bend)
            self._bends[source, target] = chain
            path = [source, *chain, target]
            for above, below in pairwise(path):
                self._down[above].append(below)
                self._up[below].append(above)

    def _order(self) -> None:
        """Vertices move toward the middle of their neighbors, down and up, which untangles most edges."""
        place = {node: float(at) for row in self._rows for at, node in enumerate(row)}
        for sweep in range(_SWEEPS):
            near = self._up if sweep % 2 == 0 else self._down
            for row in self._rows if sweep % 2 == 0 else reversed(self._rows):
                middle = {node: _mean([place[each] for each in near[node]], place[node]) for node in row}
                row.sort(key=middle.__getitem__)
                place.update({node: float(at) for at, node in enumerate(row)})

    def _place(self) -> None:
        for row in self._rows:
            self._settle(row, [0.0] * len(row))
        for sweep in range(_SWEEPS):
            near = self._up if sweep % 2 == 0 else self._down
            for row in self._rows if sweep % 2 == 0 else reversed(self._rows):
                wanted = [_mean([self._x[each] for each in near[node]], self._x[node]) for node in row]
                self._settle(row, wanted)
        for row in self._rows:
            both = [[*self._up[node], *self._down[node]] for node in row]
            self._settle(
                row,
                [_mean([self._x[e] for e in near], self._x[n]) for n, near in zip(row, both, strict=True)],
            )

    def _settle(self, row: list[int], wanted: list[float]) -> None:
        """The places nearest to those wanted that keep order and distance: a regression with pooled neighbors."""
        if not row:
            return
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (self._width[left] + self._width[right]) / 2 + GAP_X)
        pools: list[tuple[float, int]] = []
        for want, offset in zip(wanted, offsets, strict=True):
            value, size = want - offset, 1
            while pools and pools[-1][0] > value:
                other, count = pools.pop()
                value, size = (value * size + other * count) / (size + count), size + count
            pools.append((value, size))
        at = 0
        for value, size in pools:
            for _ in range(size):
                self._x[row[at]] = value + offsets[at]
                at += 1

    def _heights(self) -> tuple[list[float], list[float]]:
        tops, bottoms, y = [], [], 0.0
        for row in self._rows:
            height = max((self._sizes[node][1] for node in row if node < len(self._sizes)), default=0.0)
            tops.append(y)
            bottoms.append(y + height)
            y += height + GAP_Y
        return tops, bottoms

    def _route(self, edge: tuple[int, int], tops: list[float], bottoms: list[float]) -> list[Point]:
        source, target = edge
        start = tops[self._row_of[source]] + self._sizes[source][1]
        points = [(round(self._x[source], 1), start)]
        for bend in self._bends[edge]:
            number = self._row_of[bend]
            points += [(round(self._x[bend], 1), tops[number]), (round(self._x[bend], 1), bottoms[number])]
        return [*points, (round(self._x[target], 1), tops[self._row_of[target]])]


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise
