"""The log of a run by level, text, attempt and step; forward, backward, and while others write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from operated_store import begin

from afl.kernel.errors import InputError
from afl.kernel.ids import random_id
from afl.operations.run import control
from afl.operations.run.run_log import END, read_page
from afl.runtime.entities import LogDefinition
from afl.runtime.memory_store import MemoryStore


def entry(run: str, message: str, **fields: Any) -> LogDefinition:
    return replace(LogDefinition(random_id(), 0, run, f"{run}/0/a", message=message), **fields)


@pytest.fixture
def run(store: MemoryStore) -> str:
    made = begin(store)
    lines = [
        entry(made, "begun"),
        entry(made, "slow Answer", note_type="warning", attempt=1),
        entry(made, "attempt 1 failed", note_type="error", attempt=1),
        entry(made, "again", attempt=2, step_id=f"{made}/0/a/0/deep"),
        entry(made, "beside", step_id=f"{made}/0/ab"),
    ]
    store.save_logs(lines)
    return made


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, ["begun", "slow Answer", "attempt 1 failed", "again", "beside"]),
        ({"level": "warning"}, ["slow Answer", "attempt 1 failed"]),
        ({"level": "error"}, ["attempt 1 failed"]),
        ({"grep": "ANSWER"}, ["slow Answer"]),
        ({"grep": "deep"}, ["again"]),
        ({"attempt": 2}, ["again"]),
        ({"step": "a"}, ["begun", "slow Answer", "attempt 1 failed", "again"]),
        ({"step": "0/a"}, ["begun", "slow Answer", "attempt 1 failed", "again"]),
        ({"step": "ab"}, ["beside"]),
        ({"step": "a", "attempt": 1, "level": "error"}, ["attempt 1 failed"]),
        ({"grep": "nothing of it"}, []),
    ],
)
def test_what_is_asked_for(store: MemoryStore, run: str, asked: dict[str, Any], expected: list[str]) -> None:
    for way in ({}, {"before": END}):
        page = read_page(store, run, **asked, **way)
        assert [line.message for line in page.lines] == expected


def test_a_level_that_there_is_not(store: MemoryStore, run: str) -> None:
    with pytest.raises(InputError, match="info, warning, error"):
        read_page(store, run, level="loud")


def test_pages_of_what_is_asked_for_leave_nothing_out(store: MemoryStore, run: str) -> None:
    store.save_logs([entry(run, f"{number}", attempt=9 if number % 3 else 0) for number in range(3_000)])
    read, position = [], 0
    while page := read_page(store, run, attempt=9, after=position, limit=700).lines:
        read += [line.message for line in page]
        position = read_page(store, run, attempt=9, after=position, limit=700).position
    assert read == [str(number) for number in range(3_000) if number % 3]


def test_reading_back_from_the_end(store: MemoryStore, run: str) -> None:
    store.save_logs([entry(run, f"{number}", attempt=9 if number % 3 else 0) for number in range(3_000)])
    pieces, before = [], END
    while before:
        page = read_page(store, run, attempt=9, before=before, limit=700)
        pieces.insert(0, [line.message for line in page.lines])
        before = page.first
    assert [each for piece in pieces for each in piece] == [str(each) for each in range(3_000) if each % 3]
    assert [len(each) for each in pieces] == [600, 700, 700]


def test_who_waits_is_not_woken_by_what_nobody_asked_for(store: MemoryStore, run: str) -> None:
    end = read_page(store, run).position
    store.save_logs([entry(run, "of no interest"), entry(run, "bad", note_type="error")])
    page = read_page(store, run, after=end, level="error", wait=5)
    assert [line.message for line in page.lines] == ["bad"]
    control.cancel(store, run)
    last = read_page(store, run, after=page.position, level="error", wait=5)
    assert (last.is_empty, last.over) == (True, True)
