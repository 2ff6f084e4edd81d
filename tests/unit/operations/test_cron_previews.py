"""When a schedule would start its runs, before it is added."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest

from afl.kernel.clock import wall_ms
from afl.kernel.errors import ScheduleError
from afl.operations.work.timetable import preview


def test_the_next_times_of_an_expression() -> None:
    times = preview("30 6 * * 1", "Europe/Vienna", 3)
    assert len(times) == 3 and times == sorted(times) and times[0] > wall_ms()
    assert {datetime.fromtimestamp(each / 1000, UTC).weekday() for each in times} == {0}
    assert all((later - sooner) / 86_400_000 > 6.9 for sooner, later in pairwise(times))


def test_an_expression_whose_years_are_over_has_no_times() -> None:
    assert preview("0 0 0 1 1 * 2001") == []


@pytest.mark.parametrize(("cron", "zone"), [("nonsense", "UTC"), ("@daily", "Nowhere")])
def test_what_cannot_be(cron: str, zone: str) -> None:
    with pytest.raises(ScheduleError):
        preview(cron, zone)
