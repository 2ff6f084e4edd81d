"""The audit log and the search."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, program_of, visitors
from support.turns_house import House

from afl.kernel.database import connect
from afl.operations.work import timetable
from afl.runtime.persistence import TaskFilter

SOURCE = """namespace t {
    event facet Ring(bell: String) => (rung: Boolean)
    workflow Bells(bell: String = "small") andThen {
        first = Ring(bell = $.bell)
    }
}
"""


@pytest.fixture
def house(store_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitors]:
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", "1")
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "20")
    with visitors(store_url, redis="redis://127.0.0.1:1/0") as found:
        yield found


def schedule(house: Visitors, name: str) -> None:
    timetable.add(house.store, program_of(SOURCE), cron="@daily", name=name)


def test_what_was_done_and_refused_is_written_down(house: Visitors) -> None:
    schedule(house, MARKUP)
    house.operator.act("/schedules/pause", name=MARKUP)
    house.viewer.send("/schedules/remove", name=MARKUP)
    text = house.admin.read("/audit")
    assert f"pause schedule {MARKUP} done operator operator" in text
    assert f"remove schedule {MARKUP}" in text and "refused" in text
    assert "remove schedule" not in house.admin.read("/audit?outcome=done")
    assert "pause schedule" not in house.admin.read("/audit?who=viewer")
    assert "No action fits" in house.admin.read("/audit?operation=pause&subject=nothing")
    assert house.admin.open("/audit").count('data-live="audit"') == 1


def test_the_log_has_pages(house: Visitors) -> None:
    schedule(house, "bells")
    for number in range(56):
        house.operator.send(f"/schedules/{'pause' if number % 2 else 'unpause'}", name="bells")
    page = house.admin.open("/audit")
    assert page.count("pause schedule") == 50
    older = page.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
    assert house.admin.open(older).count("pause schedule") == 6
    assert house.admin.open("/audit?operation=pause+sched").count("pause schedule") == 56


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_the_log_is_an_admins(house: Visitors, role: str) -> None:
    assert "takes admin" in {"viewer": house.viewer, "operator": house.operator}[role].read("/audit", 403)


def test_an_exact_id_leads_to_its_page(house: Visitors) -> None:
    run = house.run(SOURCE)
    (task,) = house.store.find_tasks(TaskFilter(name="t.Ring"))
    for text, page in {run: f"/runs/{run}", task.uuid: f"/tasks/{task.uuid}", f"{run}/first": None}.items():
        answer = house.viewer.client.get("/search", params={"q": text})
        assert answer.status_code == 303
        assert answer.headers["location"] == (page or f"/runs/{run}/steps/0/first")


def test_parts_of_names_and_beginnings_of_ids(house: Visitors, store_url: str) -> None:
    run = house.run(SOURCE)
    schedule(house, "morning bells")
    database = connect(store_url)
    House(database, house.settings.project).enqueue("ada")
    database.close()
    text = house.viewer.read("/search?q=bell")
    assert "Workflow t.Bells" in text and "Schedule morning bells" in text
    assert "Run" in house.viewer.read(f"/search?q={run[:12]}")
    assert "Task t.Ring" in house.viewer.read("/search?q=Ring")
    assert "Agent ada" in house.viewer.read("/search?q=ada")
    assert "Turn turn of ada" in house.viewer.read("/search?q=turn_").replace("Turns", "Turn")


def test_what_is_not_there_and_parts_that_are_away(house: Visitors) -> None:
    text = house.viewer.read(f"/search?q={MARKUP}")
    assert f"No results for “{MARKUP}”" in text
    assert "Fleet is unavailable." in text and "Messages are unavailable." in text
    assert "No results for" not in house.viewer.read("/search")
