"""Loops over things of which one may be bad."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from afl.kernel.errors import InputError, StoreConflict, StoreUnavailable
from afl.kernel.isolation import Isolation

LOG = logging.getLogger("afl.test")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("error", [InputError("no"), StoreConflict("no"), ZeroDivisionError("no")])
def test_a_bad_item_is_told_once_until_it_went_well(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    isolation = Isolation(LOG, "the loop")
    for _ in range(3):
        with isolation.item("run 1"):
            raise error
    assert lines(caplog) == [f"the loop leaves run 1: {error!r}"]
    with isolation.item("run 1"):
        pass
    with isolation.item("run 1"):
        raise error
    assert len(lines(caplog)) == 2


def test_trouble_with_the_store_is_no_items_fault(caplog: pytest.LogCaptureFixture) -> None:
    isolation = Isolation(LOG, "the loop")
    with pytest.raises(StoreUnavailable), isolation.item("run 1"):
        raise StoreUnavailable("away")
    assert lines(caplog) == []


def test_what_fails_together_is_done_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    isolation = Isolation(LOG, "the loop")
    done: list[int] = []

    async def work(some: Sequence[int]) -> None:
        if 2 in some:
            raise InputError("2 is bad")
        done.extend(some)

    asyncio.run(isolation.batch([1, 3], work, str))
    asyncio.run(isolation.batch([1, 2, 3], work, str))
    assert done == [1, 3, 1, 3]
    assert lines(caplog) == ["the loop leaves 2: InputError('2 is bad')"]
