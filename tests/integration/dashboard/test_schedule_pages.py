"""The pages of schedules: the list, its actions, and the form that adds one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, program_of, shown, visitors

from afl.operations.work import timetable
from afl.operations.work.timetable import schedules

SOURCE = """namespace t {
    event facet Ring(bell: String) => (rung: Boolean)
    /** Rings a bell in the morning. */
    workflow Morning(bell: String = "small", times: Long) andThen {
        a = Ring(bell = $.bell)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def add(house: Visitors, name: str = "morning") -> None:
    inputs = {"bell": MARKUP, "times": 2}
    timetable.add(
        house.store, program_of(SOURCE), inputs, cron="0 6 * * 1-5", name=name, zone="Europe/Vienna"
    )


def test_a_schedule_says_when_it_starts_what(house: Visitors) -> None:
    assert "No schedule" in house.viewer.read("/schedules")
    add(house)
    text = house.viewer.read("/schedules")
    assert "morning t.Morning scheduled 0 6 * * 1-5 Europe/Vienna in" in text
    assert MARKUP in text


def test_pause_unpause_and_remove(house: Visitors) -> None:
    add(house, MARKUP)
    told = house.operator.act("/schedules/pause", name=MARKUP)
    assert (told.url, told.kind, told.text) == ("/schedules", "good", f"Schedule {MARKUP} is paused.")
    assert [each.paused for each in schedules(house.store)] == [True]
    assert "Unpause" in house.operator.read("/schedules")
    assert house.operator.act("/schedules/unpause", name=MARKUP).text.endswith("starts runs again.")
    assert [each.paused for each in schedules(house.store)] == [False]
    assert "was removed" in house.operator.act("/schedules/remove", name=MARKUP).text
    assert schedules(house.store) == []
    again = house.operator.act("/schedules/remove", name="gone")
    assert (again.kind, again.text) == ("bad", "there is no schedule 'gone'; there is none at all")


@pytest.mark.parametrize("action", ["pause", "unpause", "remove"])
def test_a_viewer_changes_nothing(house: Visitors, action: str) -> None:
    add(house)
    assert "Remove" not in house.viewer.read("/schedules")
    assert house.viewer.send(f"/schedules/{action}", name="morning").status_code == 403
    (kept,) = schedules(house.store)
    assert not kept.paused


def test_the_form_shows_the_next_five_times(house: Visitors) -> None:
    house.run(SOURCE, {"times": 1})
    text = house.operator.read("/schedules/new?workflow=t.Morning&cron=0+6+*+*+1&zone=Europe/Vienna")
    assert text.count("Mon 20") == 5
    assert "06:00:00" in text
    assert "Rings a bell in the morning." in text
    assert "Bell String optional" in text
    part = house.operator.read("/schedules/fragment/preview?cron=61+*+*+*+*")
    assert "61" in part and "It would start" not in part
    assert "no time zone 'Nowhere'" in house.operator.read(
        "/schedules/fragment/preview?cron=@daily&zone=Nowhere"
    )


def test_a_schedule_is_added_from_the_form(house: Visitors) -> None:
    house.run(SOURCE, {"times": 1})
    fields = {"workflow": "t.Morning", "cron": "@daily", "zone": "UTC", "name": "bells", "catch_up": "all"}
    told = house.operator.act("/schedules", **fields, **{"field.bell": f"big {MARKUP}", "field.times": "3"})
    assert told.text == "Schedule bells was added."
    (made,) = schedules(house.store)
    assert (made.name, made.workflow, made.cron, made.catch_up) == ("bells", "t.Morning", "@daily", "all")
    assert made.inputs == {"bell": f"big {MARKUP}", "times": 3}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"cron": "@daily", "field.times": "many"}, "write a whole number; got 'many'"),
        ({"cron": "@daily"}, "is required"),
        ({"cron": "nonsense", "field.times": "1"}, "cron 'nonsense' has 1 field"),
    ],
)
def test_what_does_not_fit_is_said_and_nothing_is_stored(
    house: Visitors, fields: dict[str, str], problem: str
) -> None:
    house.run(SOURCE, {"times": 1})
    answer = house.operator.send("/schedules", workflow="t.Morning", **fields)
    assert answer.status_code == 422
    assert problem in shown(answer.text)
    assert schedules(house.store) == []


def test_looking_at_the_times_stores_nothing(house: Visitors) -> None:
    house.run(SOURCE, {"times": 1})
    answer = house.operator.send("/schedules", workflow="t.Morning", cron="@hourly", look="1")
    assert answer.status_code == 200
    assert "It would start" in shown(answer.text)
    assert schedules(house.store) == []


def test_a_viewer_adds_nothing(house: Visitors) -> None:
    house.run(SOURCE, {"times": 1})
    fields = {"workflow": "t.Morning", "cron": "@daily", "field.times": "1"}
    assert house.viewer.send("/schedules", **fields).status_code == 403
    assert "requires the operator role" in house.viewer.read("/schedules/new")
    assert schedules(house.store) == []
