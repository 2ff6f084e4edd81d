"""The chips with their counts, and bulk actions: seen before they are done, written down once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import Visitors, visitors

from afl.operations.audit import read_audit
from afl.operations.run import control
from afl.operations.run.bulk import ACTION_NAMES
from afl.runtime.entities import RunnerState
from afl.runtime.persistence import RunFilter

SOURCE = """namespace t {
    event facet Approve(n: Long) => (ok: Boolean) with Human("finance")
    event facet Work(n: Long) => (m: Long)
    workflow Ask(n: Long) => (ok: Boolean) andThen { a = Approve($.n) yield Ask(ok = a.ok) }
    workflow Do(n: Long) => (m: Long) andThen { w = Work($.n) yield Do(m = w.m) }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def refuse(n: int) -> dict[str, int]:
    raise ValueError(f"{n} is refused")


def states(house: Visitors) -> list[str]:
    return sorted(run.state for run in house.store.find_runs(RunFilter(limit=1_000)))


def test_chips_count_runs_by_what_they_wait_for(house: Visitors) -> None:
    for n in range(3):
        house.run(SOURCE, {"n": n}, "t.Ask")
    house.run(SOURCE, {"n": 4}, "t.Do")
    assert "All Running Retrying Waiting 4 Paused Failed Canceled Completed Created" in house.viewer.read(
        "/runs"
    )
    page = house.viewer.read("/runs?state=waiting%3Aperson")
    assert "For a person 3" in page and "For an agent 1" in page
    assert page.count("waiting for a person") == 3 and "waiting for an agent" not in page
    assert "n=2" in page and "n=4" not in page


def test_a_bulk_action_is_seen_before_it_is_done_and_noted_once(house: Visitors) -> None:
    for n in range(3):
        house.run(SOURCE, {"n": n}, "t.Ask")
    other = house.run(SOURCE, {"n": 7}, "t.Do", Work=refuse)
    assert "All that match" not in house.viewer.read("/runs?state=waiting")
    assert "All that match" not in house.operator.read("/runs")
    assert "Cancel …" in house.operator.read("/runs?state=waiting")
    page = house.operator.read("/bulk?action=cancel&state=waiting")
    assert "Cancel 3 runs?" in page and "n=2" in page and other not in page
    assert states(house) == ["failed", "running", "running", "running"]
    told = house.operator.act("/bulk", action="cancel", state="waiting")
    assert (told.url, told.text) == ("/runs?state=waiting", "Canceled 3 runs.")
    assert states(house) == ["canceled", "canceled", "canceled", "failed"]
    (entry,) = read_audit(house.store).entries
    assert (entry.operation, entry.subject) == ("bulk_runs", "cancel of 3 runs: state=waiting")
    assert house.operator.act("/bulk", action="retry", workflow="t.Do").text == "Retrying 1 run."


def test_only_an_administrator_removes_runs(house: Visitors) -> None:
    house.run(SOURCE, {"n": 7}, "t.Do", Work=refuse)
    assert "Prune …" not in house.operator.read("/runs?state=failed")
    assert house.operator.send("/bulk", action="prune", state="failed").status_code == 403
    assert house.viewer.send("/bulk", action="retry", state="failed").status_code == 403
    assert "Prune …" in house.admin.read("/runs?state=failed")
    assert house.admin.act("/bulk", action="prune", state="failed").text == "Removed 1 run."
    assert states(house) == []


def test_a_bulk_action_without_a_filter_leads_back_to_the_list(house: Visitors) -> None:
    for path in ("/bulk", "/bulk?action=cancel", "/bulk?action=explode&state=failed"):
        assert house.operator.client.get(path).status_code == 303
    assert "No run is hit" in house.operator.read("/bulk?action=cancel&state=failed")
    told = house.operator.act("/bulk", action="explode", state=RunnerState.FAILED)
    assert "is not a bulk action" in told.text


def test_filters_by_duration_and_cost_stand_in_the_url(house: Visitors) -> None:
    run = house.run(SOURCE, {"n": 7}, "t.Do", Work=refuse)
    assert run in house.viewer.open("/runs?longer=0s")
    assert run not in house.viewer.open("/runs?longer=1h")
    assert run not in house.viewer.open("/runs?cost=0.5&text=refused")
    assert 'value="1h"' in house.viewer.open("/runs?longer=1h")


@pytest.mark.parametrize(
    ("filters", "said"),
    {
        "tag=team": "a tag is written key=value",
        "longer=10+minutes": "a span of time is written like",
        "cost=$2": "a cost is a number of US dollars",
        "cost=nan": "a cost is a number of US dollars",
        "state=broken": "is not a state of a run",
        "span=soon": "a span of time is written like",
    }.items(),
)
def test_a_filter_that_is_not_understood_is_refused(house: Visitors, filters: str, said: str) -> None:
    """Passed over, it would let a bulk action change more runs than were meant."""
    run = house.run(SOURCE, {"n": 7}, "t.Do", Work=refuse)
    shown = house.operator.read(f"/runs?workflow=t.Do&{filters}")
    assert said in shown and run not in shown
    assert said in house.operator.read(f"/bulk?action=cancel&workflow=t.Do&{filters}", 422)


@pytest.mark.parametrize("action", ACTION_NAMES)
def test_a_preview_says_what_the_action_does(house: Visitors, action: str) -> None:
    house.run(SOURCE, {"n": 7}, "t.Do", Work=refuse)
    waiting = house.run(SOURCE, {"n": 7}, "t.Ask")
    if action == "unpause":
        control.pause(house.store, waiting)
    shown = house.admin.read(f"/bulk?action={action}&text=7")
    assert f"{action.capitalize()} 1 run" in shown or f"{action.capitalize()} 2 runs" in shown
