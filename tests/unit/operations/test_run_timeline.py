"""A run over time: queued and running apart, a bar for each attempt, the critical path."""

from __future__ import annotations

from operated_store import begin, double, program_of

from afl.operations.run.critical_path import critical_steps
from afl.operations.run.run_timeline import MOST_BARS, SLICES, RunTimeline, TimelineRow, run_timeline
from afl.runtime.memory_store import MemoryStore
from afl.runtime.states import StepState
from afl.runtime.step import StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId

FETCH = """namespace t {
    event facet Fetch(n: Long) => (m: Long) with Retry(attempts = 20, backoff = 0)
    event facet Double(n: Long) => (m: Long)
    facet Both(n: Long) => (m: Long) andThen {
        inner = Double(n = $.n)
        yield Both(m = inner.m)
    }
    workflow Page(n: Long) => (m: Long) andThen {
        a = Fetch(n = $.n)
        b = Both(n = a.m)
        aside = Double(n = 1)
        yield Page(m = b.m)
    }
}
"""


EACH = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Each(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        one = Double(n = n)
        yield Each(ms = [one.m])
    }
}
"""


def failing(times: int) -> object:
    calls: list[int] = []

    def fetch(n: int) -> dict[str, int]:
        calls.append(n)
        if len(calls) <= times:
            raise ConnectionError("no route")
        return {"m": n}

    return fetch


def rows_of(timeline: RunTimeline) -> dict[str, TimelineRow]:
    return {row.path: row for row in timeline.rows}


def test_each_attempt_has_a_lane_in_which_it_is_queued_before_it_runs(store: MemoryStore) -> None:
    run = begin(store, FETCH, Fetch=failing(2), Double=double)
    row = rows_of(run_timeline(store, run))["0/a"]
    assert [(bar.number, bar.outcome) for bar in row.bars] == [
        (1, "failed"),
        (2, "failed"),
        (3, "completed"),
    ]
    moments = [at for bar in row.bars for at in (bar.queued, bar.start, bar.end)]
    assert moments == sorted(moments)
    assert row.start <= moments[0] and moments[-1] <= row.end
    assert (row.attempts, row.slices) == (3, [])
    assert row.queued_ms == sum(bar.queued_ms for bar in row.bars)


def test_what_nobody_has_claimed_is_queued(store: MemoryStore) -> None:
    run = begin(store, FETCH)
    row = rows_of(run_timeline(store, run))["0/a"]
    (bar,) = row.bars
    assert (bar.outcome, bar.ran_ms, bar.end) == ("queued", 0, 1.0)
    assert (row.ran_ms, row.queued_ms) == (0, bar.queued_ms)


def test_of_very_many_attempts_the_newest_have_lanes(store: MemoryStore) -> None:
    run = begin(store, FETCH, Fetch=failing(15), Double=double)
    row = rows_of(run_timeline(store, run))["0/a"]
    assert [bar.number for bar in row.bars] == list(range(17 - MOST_BARS, 17))
    assert row.attempts == 16


def test_rows_inside_of_one_are_below_it(store: MemoryStore) -> None:
    run = begin(store, FETCH, Fetch=failing(0), Double=double)
    names = [row.name for row in run_timeline(store, run).rows]
    assert names.index("inner") == names.index("b") + 1


def test_elements_that_are_queued_are_told_apart(store: MemoryStore) -> None:
    run = begin(store, EACH, {"ns": list(range(7))})
    (row,) = run_timeline(store, run).rows
    assert (row.bars, row.attempts, len(row.slices)) == ([], 7, SLICES)
    assert row.queued_slices[-1] == row.slices[-1] == 7


RUN = WorkflowId("r")


def line(path: str, started: int, ended: int, kind: str = ObjectType.VARIABLE_ASSIGNMENT) -> StepLine:
    id = StepId(f"{RUN}/{path}" if path else str(RUN))
    return StepLine(id, kind, StepState.STATEMENT_COMPLETE, "", started, ended)


def critical(source: str, *lines: StepLine) -> set[str]:
    found = critical_steps(lines, program_of(source), RUN)
    return {str(step).removeprefix(f"{RUN}/") for step in found}


def test_the_critical_path_leads_back_over_what_was_waited_for() -> None:
    path = critical(
        FETCH,
        line("", 0, 90),
        line("0", 0, 90, ObjectType.AND_THEN),
        line("0/a", 0, 30),
        line("0/aside", 0, 80),
        line("0/b", 30, 90),
        line("0/b/0", 30, 90, ObjectType.AND_THEN),
        line("0/b/0/inner", 30, 89),
        line("0/b/0/>0", 89, 90),
        line("0/>0", 90, 90),
    )
    assert {"0/a", "0/b", "0/b/0/inner"} <= path
    assert "0/aside" not in path


def test_a_step_that_is_open_is_the_last_to_end() -> None:
    path = critical(
        FETCH,
        line("", 0, 0),
        line("0", 0, 0, ObjectType.AND_THEN),
        line("0/a", 0, 30),
        line("0/aside", 0, 0),
        line("0/b", 30, 70),
    )
    assert path == {"0", "0/aside"}


def test_of_elements_the_slowest_and_of_iterations_all_are_critical() -> None:
    again = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Again(ns: [Long]) => (m: Long = 0) andThen repeat last {
        one = Double(n = last.m)
        yield Again(m = one.m)
    } until last.m == 3
}
"""
    steps = [line(f"0/#{n}/one", 10 * n, 10 * n + 9) for n in range(3)]
    blocks = [line(f"0/#{n}", 10 * n, 10 * n + 9, ObjectType.BLOCK) for n in range(3)]
    root, elements = line("", 0, 30), line("0", 0, 30, ObjectType.AND_MAP)
    assert critical(EACH, root, elements, *blocks, *steps) == {"0", "0/#2", "0/#2/one"}
    path = critical(again, root, line("0", 0, 30, ObjectType.AND_REPEAT), *blocks, *steps)
    assert path >= {"0/#0/one", "0/#1/one", "0/#2/one"}
