"""The log on the page of a run: filtered, read back, downloaded; and the log of each attempt on the step's page."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors

from afl import HandlerContext
from afl.kernel.ids import sortable_id
from afl.runtime.entities import LogDefinition

FETCH = """namespace t {
    event facet Fetch(n: Long) => (m: Long) with Retry(attempts = 3, backoff = 0)
    workflow Page(n: Long) => (m: Long) andThen {
        page = Fetch(n = $.n)
        yield Page(m = page.m)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def fetch(n: int, context: HandlerContext) -> dict[str, int]:
    context.log(f"asking, try {context.attempt} {MARKUP}")
    context.log("slow", level="warning")
    raise ConnectionError("no route")


@pytest.fixture
def run(house: Visitors) -> str:
    """Three attempts, and all of them failed."""
    return house.run(FETCH, {"n": 3}, Fetch=fetch)


def test_the_log_is_filtered(house: Visitors, run: str) -> None:
    every = house.viewer.read(f"/runs/{run}?view=log")
    assert "asking, try 2" in every and "attempt 3 failed: ConnectionError: no route" in every
    part = f"/runs/{run}/fragment/log"
    assert "asking" not in house.viewer.read(f"{part}?level=warning")
    assert "slow" not in house.viewer.read(f"{part}?level=error")
    second = house.viewer.read(f"{part}?attempt=2&step=page")
    assert "asking, try 2" in second and "try 1" not in second
    assert "No entry matches" in house.viewer.read(f"{part}?grep=nothing+of+it")
    assert "asking, try 3" in house.viewer.read(f"{part}?level=loud&attempt=-1")


def test_the_newest_entries_are_shown_first_and_lead_to_earlier_ones(house: Visitors, run: str) -> None:
    batch = [LogDefinition(sortable_id(), 0, run, message=f"line {number}") for number in range(1_200)]
    house.store.save_logs(batch)
    page = house.viewer.client.get(f"/runs/{run}?view=log")
    assert "line 1199" in page.text and "line 150<" not in page.text
    before = page.text.split("before=")[1].split('"')[0]
    earlier = house.viewer.read(f"/runs/{run}?view=log&before={before}")
    assert "line 199" in earlier and "line 200" not in earlier and "asking, try 1" in earlier
    assert "Newest entries" in earlier


def test_the_log_is_downloaded_as_it_is_filtered(house: Visitors, run: str) -> None:
    got = house.viewer.client.get(f"/runs/{run}/log.txt?attempt=3")
    assert got.headers["content-type"].startswith("text/plain")
    assert got.headers["content-disposition"] == f'attachment; filename="{run}.log"'
    first, second, third = got.text.splitlines()
    assert first.endswith(f"INFO    page #3  asking, try 3 {MARKUP}")
    assert second.endswith("WARNING page #3  slow")
    assert "ERROR   page #3  attempt 3 failed" in third
    assert len(house.viewer.client.get(f"/runs/{run}/log.txt").text.splitlines()) == 9
    assert house.viewer.client.get("/runs/nothing/log.txt").status_code == 404


def test_each_attempt_has_its_own_log(house: Visitors, run: str) -> None:
    page = house.viewer.client.get(f"/runs/{run}/steps/0/page").text
    rows = page.split('<tr data-key="')[1:]
    assert len(rows) == 3
    for number, row in enumerate(rows, 1):
        assert f"asking, try {number} " in row
        assert f"attempt {number} failed" in row
        assert row.count("asking, try") == 1
        assert "raise ConnectionError" in row
        assert "Copy traceback" in row
    assert 'aria-label="Log of the step"' not in page


def test_the_page_of_a_task_leads_to_the_log_of_each_attempt(house: Visitors, run: str) -> None:
    (task,) = house.store.get_tasks_by_workflow(run)  # type: ignore[arg-type]
    page = house.viewer.client.get(f"/tasks/{task.uuid}").text
    assert "view=log&amp;step=0%2Fpage&amp;attempt=2" in page
    assert "3, 3 failed" in house.viewer.read(f"/tasks/{task.uuid}")


def test_attempts_that_are_not_kept_are_said_to_be_missing(house: Visitors) -> None:
    run = house.run(FETCH.replace("attempts = 3", "attempts = 55"), {"n": 3}, Fetch=fetch)
    page = house.viewer.open(f"/runs/{run}/steps/0/page")
    missing = re.search(r"Attempts 2 to (\d+) are not kept", page)
    assert missing is not None
    assert page.count('data-label="Attempt"') == 55 - int(missing[1]) + 1
    (task,) = house.store.get_tasks_by_workflow(run)  # type: ignore[arg-type]
    assert "55, 55 failed" in house.viewer.read(f"/tasks/{task.uuid}")
