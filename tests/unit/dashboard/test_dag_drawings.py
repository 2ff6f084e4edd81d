"""The picture of a DAG: every task has a place of its own, and lines lead down."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from support.properties import tries

from afl.dashboard.drawings import BOX_HEIGHT, BOX_WIDTH, draw_dag
from afl.kernel.dag import Dag


@st.composite
def dags(draw_: st.DrawFn) -> Dag:
    """Nodes that depend on some of those before them."""
    count = draw_(st.integers(0, 25))
    needs = {}
    for number in range(count):
        before = [f"n{each}" for each in range(number)]
        needs[f"n{number}"] = (
            draw_(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
        )
    return Dag(needs)


@tries(50, deep=100)
@given(dags())
def test_boxes_are_apart_and_lines_lead_down(dag: Dag) -> None:
    drawing = draw_dag(dag)
    places = {box.node: box for box in drawing.boxes}
    assert set(places) == set(dag.nodes)
    boxes = list(places.values())
    for number, one in enumerate(boxes):
        assert 0 <= one.x <= drawing.width - BOX_WIDTH and 0 <= one.y <= drawing.height - BOX_HEIGHT
        for other in boxes[number + 1 :]:
            assert abs(one.x - other.x) >= BOX_WIDTH or abs(one.y - other.y) >= BOX_HEIGHT
    assert {(line.source, line.target) for line in drawing.lines} == {
        (source, node) for node in dag.nodes for source in dag.dependencies(node)
    }
    for line in drawing.lines:
        assert places[line.source].y + BOX_HEIGHT < places[line.target].y
        assert re.fullmatch(r"M[\d. ]+([CL][\d. ]+)+", line.path)
