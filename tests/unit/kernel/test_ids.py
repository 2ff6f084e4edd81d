"""Ids that sort by the time they were made."""

from __future__ import annotations

import importlib.util
import os
import threading
import time
from types import ModuleType, SimpleNamespace

import pytest

from afl.kernel.ids import sortable_id, time_of


@pytest.fixture
def ids() -> ModuleType:
    """A copy of the module that has made no ids yet, for tests that change its clock."""
    spec = importlib.util.find_spec("afl.kernel.ids")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def set_clock(ids: ModuleType, seconds: float) -> None:
    ids.time = SimpleNamespace(time_ns=lambda: int(seconds * 1_000_000_000))  # type: ignore[attr-defined]


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


def test_within_a_millisecond_ids_count_up_one_by_one(ids: ModuleType) -> None:
    """Over the borders of what is written once for many of them."""
    set_clock(ids, 1_000_000_000)
    numbers = [number_of(ids.sortable_id()) for _ in range(3000)]

    assert numbers == list(range(numbers[0], numbers[0] + 3000))


def test_a_clock_that_is_set_back_makes_no_smaller_ids(ids: ModuleType) -> None:
    set_clock(ids, 5)
    first = ids.sortable_id()
    set_clock(ids, 1)

    assert number_of(ids.sortable_id()) == number_of(first) + 1


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


def test_a_forked_child_does_not_count_on_from_its_parent(ids: ModuleType) -> None:
    """Parent and child would make the same ids."""
    set_clock(ids, 5)
    last = number_of(ids.sortable_id())
    inside, outside = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(outside, ids.sortable_id().encode())
        os._exit(0)
    os.waitpid(child, 0)
    of_child = os.read(inside, 26).decode()
    os.close(inside)
    os.close(outside)

    assert number_of(of_child) != last + 1
    assert number_of(ids.sortable_id()) == last + 1
