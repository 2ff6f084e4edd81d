"""The page that shows two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors

SOURCE = """workflow Double(n: Int, note: String = "") => (m: Int, note: String) andThen {
    yield Double(m = $.n * 2, note = $.note)
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        found.run(SOURCE, {"n": 1, "note": MARKUP})
        found.run(SOURCE.replace("$.n * 2", "$.n * 3"), {"n": 4, "note": MARKUP})
        yield found


def test_what_differs_is_on_the_page(house: Visitors) -> None:
    second, first = (run.workflow_id for run in house.store.get_runs())
    text = house.viewer.read(f"/compare?first={first}&second={second}")
    assert "n differs 1 4" in text
    assert "m differs 2 12" in text
    assert "- yield Double(m = $.n * 2" in text and "+ yield Double(m = $.n * 3" in text
    same = house.viewer.read(f"/compare?first={first}&second={first}")
    assert "Program, inputs, steps and results are the same." in same


def test_a_run_leads_to_it_and_a_run_that_is_not_there_is_said(house: Visitors) -> None:
    run = house.store.get_runs()[0].workflow_id
    assert f'href="/compare?first={run}"' in house.viewer.open(f"/runs/{run}")
    assert "Second run" in house.viewer.read(f"/compare?first={run}")
    assert "nothing" in house.viewer.read(f"/compare?first={run}&second=nothing", status=404)
    assert "Compare" in house.viewer.read("/compare?first=&second=%20")
