"""Ids that sort by the time they were made."""

from __future__ import annotations

import os
import threading
import time
from types import SimpleNamespace

import pytest

from afl.kernel import ids
from afl.kernel.ids import sortable_id, time_of


def number_of(name: str) -> int:
    """The id as the number that it writes in base 32."""
    number = 0
    for letter in name:
        number = number * 32 + "0123456789abcdefghjkmnpqrstvwxyz".index(letter)
    return number


def test_ids_of_one_process_sort_as_they_were_made() -> None:
    made = [sortable_id() for _ in range(5000)]

    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert {len(each) for each in made} == {26}


def test_an_id_tells_when_it_was_made() -> None:
    before = time.time_ns() // 1_000_000
    told = time_of(sortable_id())

    # Ids that were made ahead of the clock (it was set back, say) count on from the last.
    assert told is not None and before <= told <= time.time_ns() // 1_000_000 + 1


def test_within_a_millisecond_ids_count_up_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the borders of what is written once for many of them."""
    far = (time.time_ns() // 1_000_000 + 10_000) * 1_000_000
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: far))
    monkeypatch.setattr(ids, "_last", 0)
    numbers = [number_of(sortable_id()) for _ in range(3000)]

    assert numbers == list(range(numbers[0], numbers[0] + 3000))


def test_a_clock_that_is_set_back_makes_no_smaller_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ids, "_last", 0)
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: 5_000_000_000))
    first = sortable_id()
    monkeypatch.setattr(ids, "time", SimpleNamespace(time_ns=lambda: 1_000_000_000))

    assert number_of(sortable_id()) == number_of(first) + 1


def test_threads_never_make_the_same() -> None:
    made: list[list[str]] = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda mine: mine.extend(sortable_id() for _ in range(2000)), args=[mine])
        for mine in made
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({each for mine in made for each in mine}) == 8 * 2000
    assert all(mine == sorted(mine) for mine in made)


def test_a_forked_child_does_not_count_on_from_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parent and child would make the same ids."""
    ahead = (time.time_ns() // 1_000_000 + 60_000) << 80
    monkeypatch.setattr(ids, "_last", ahead)
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(outside, sortable_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(inside, 26).decode()
    os.close(inside)
    os.close(outside)

    assert number_of(of_child) != ahead + 1
    assert number_of(sortable_id()) == ahead + 1
