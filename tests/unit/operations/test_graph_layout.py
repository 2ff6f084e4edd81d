"""The layout of graphs: whatever the graph, boxes do not overlap, edges lead down, children lie in their groups."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.operations.run.graph_layout import HEADER, Item, Picture, Rect, arrange, lay_out

Sizes = list[tuple[float, float]]
Edges = list[tuple[int, int]]


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> tuple[Sizes, Edges]:
    size = st.tuples(st.sampled_from([84.0, 204.0, 400.0]), st.sampled_from([26.0, 50.0, 300.0]))
    sizes = draw(st.lists(size, min_size=1, max_size=most))
    ends = st.integers(0, len(sizes) - 1)
    pairs = draw(st.lists(st.tuples(ends, ends), max_size=2 * most))
    return sizes, [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]


@st.composite
def nested(draw: st.DrawFn, depth: int = 0) -> tuple[list[Item], Edges]:
    sizes, edges = draw(graphs(most=6))
    items = []
    for width, height in sizes:
        inner: tuple[list[Item], Edges] = (
            draw(nested(depth=depth + 1)) if depth < 2 and draw(st.booleans()) else ([], [])
        )
        items.append(Item("", width, HEADER if inner[0] else height, *inner))
    return items, edges


def named(items: list[Item], prefix: str = "n") -> list[Item]:
    for number, item in enumerate(items):
        item.id = f"{prefix}.{number}"
        named(item.items, item.id)
    return items


def overlap(one: Rect, other: Rect) -> bool:
    return (
        one.x < other.x + other.width
        and other.x < one.x + one.width
        and one.y < other.y + other.height
        and other.y < one.y + one.height
    )


def holds(outer: Rect, inner: Rect) -> bool:
    slack = 0.2  # positions are rounded to a tenth
    return (
        inner.x >= outer.x - slack
        and inner.y >= outer.y + HEADER - slack
        and inner.x + inner.width <= outer.x + outer.width + slack
        and inner.y + inner.height <= outer.y + outer.height + slack
    )


@given(graphs())
@tries(80, deep=150)
def test_boxes_do_not_overlap_and_edges_lead_down(graph: tuple[Sizes, Edges]) -> None:
    sizes, edges = graph
    made = arrange(sizes, edges)
    boxes = [Rect(x, y, *size) for (x, y), size in zip(made.positions, sizes, strict=True)]
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
    assert set(made.routes) == set(edges)
    for (source, target), points in made.routes.items():
        assert points[0][1] == boxes[source].y + boxes[source].height
        assert points[-1][1] == boxes[target].y
        heights = [y for _, y in points]
        assert heights == sorted(heights)
        assert heights[0] < heights[-1]
    assert all(box.x >= 0 and box.x + box.width <= made.width + 0.2 for box in boxes)
    assert all(box.y + box.height <= made.height for box in boxes)


@given(nested())
@tries(30, deep=60)
def test_children_lie_in_their_groups_and_siblings_apart(graph: tuple[list[Item], Edges]) -> None:
    items, edges = graph
    named(items)
    picture = lay_out(items, edges)
    _check(items, picture, None)
    assert lay_out(items, edges) == picture


def _check(items: list[Item], picture: Picture, group: Rect | None) -> None:
    boxes = [picture.boxes[item.id] for item in items]
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
    for item, box in zip(items, boxes, strict=True):
        assert group is None or holds(group, box)
        _check(item.items, picture, box)


def test_edges_that_form_a_cycle_are_left_out_where_it_closes() -> None:
    made = arrange([(10, 10)] * 3, [(0, 1), (1, 2), (2, 0)])
    assert len(made.routes) == 2
    for points in made.routes.values():
        assert points[0][1] < points[-1][1]


def test_many_boxes_of_one_layer_go_below_each_other() -> None:
    made = arrange([(204, 50)] * 100, [])
    assert made.width < 9 * 230
    assert len(set(made.positions)) == 100


def test_a_long_edge_passes_beside_the_boxes_between() -> None:
    made = arrange([(204, 50)] * 3, [(0, 1), (1, 2), (0, 2)])
    (x, y) = made.positions[1]
    passing = [point for point in made.routes[0, 2] if y <= point[1] <= y + 50]
    assert passing
    assert all(not x <= point[0] <= x + 204 for point in passing)


def test_nothing_is_a_picture_of_nothing() -> None:
    assert lay_out([], []) == Picture()
