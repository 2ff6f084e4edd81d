"""The page of figures."""

from __future__ import annotations

import pytest
from support.dashboard_pages import MARKUP, visitors

from afl.kernel.clock import wall_ms
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.stores.usage_store import usage_store

SOURCE = """namespace shop {
    workflow Order(n: Int) => (half: Double) andThen { yield Order(half = 10 / $.n) }
}
"""


@pytest.mark.parametrize("period", ["", "?period=7d", "?period=nonsense"])
def test_the_figures_of_a_period_are_on_the_page(store_url: str, period: str) -> None:
    with visitors(store_url) as house:
        for n in (1, 2, 5, 0):
            house.run(SOURCE, {"n": n})
        run = house.store.get_runs()[0].workflow_id
        kept = usage_store(house.store)
        assert kept is not None
        kept.record_usage(UsageRecord(run, "s", "t", MARKUP, 100, 50, cost_usd=0.25, time=wall_ms()))
        text = house.viewer.read(f"/overview{period}")
        assert "Runs started 4" in text
        assert "Success rate 75.0% 1 failed run" in text
        assert "shop.Order 4 75.0%" in text
        assert "$0.2500 1 150" in text
        assert "shop.Order 4 75.0%" in house.viewer.read(f"/overview/fragment/figures{period}")


def test_a_store_without_runs_has_an_overview(store_url: str) -> None:
    with visitors(store_url) as house:
        assert "No runs in this period" in house.viewer.read("/overview")
