"""Progress: event steps are folded by their place in the program, and the displays stay small."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from afl.cli.displays import LineProgress, display_for, is_round
from afl.cli.live_display import LiveDisplay
from afl.cli.progress import Progress
from afl.runtime.entities import TaskDefinition
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

RUN = WorkflowId("run")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def task(path: str, facet: str = "t.Work") -> TaskDefinition:
    return TaskDefinition(
        uuid=f"task of {path}", name=facet, runner_id="", workflow_id=RUN, flow_id="", step_id=f"run/{path}"
    )


def step(path: str, state: str, **fields: object) -> StepDefinition:
    found = StepDefinition(StepId(f"run/{path}"), ObjectType.VARIABLE_ASSIGNMENT, RUN, state=state)
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def loop(path: str, total: int) -> StepDefinition:
    progress = BlockProgress(total)
    return step(path, StepState.BLOCK_EXECUTION_CONTINUE, object_type=ObjectType.AND_MAP, progress=progress)


def work(progress: Progress, each: TaskDefinition, error: str | None = None) -> None:
    progress.task_started(each)
    progress.task_ended(each, error)


def console(*, terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=100, height=24)


def text_of(given: Console) -> str:
    assert isinstance(given.file, io.StringIO)
    return given.file.getvalue()


def test_steps_of_one_place_are_one_fold() -> None:
    progress = Progress()
    progress.stored([loop("0", 3)])
    for index in range(3):
        progress.task_started(task(f"0/#{index}/a"))
    progress.task_ended(task("0/#1/a"), None)
    (fold,) = progress.folds.values()
    assert (fold.name, fold.facet, fold.running, fold.done, fold.expected) == ("a", "t.Work", 2, 1, 3)


def test_a_case_inside_a_foreach_promises_no_number() -> None:
    progress = Progress()
    progress.stored([loop("0", 3)])
    progress.task_started(task("0/#0/a/0/?1/b"))
    (fold,) = progress.folds.values()
    assert (fold.name, fold.expected) == ("a.b", 0)


def test_nested_loops_add_up() -> None:
    progress = Progress()
    progress.stored([loop("0", 2), loop("0/#0/s/0", 5), loop("0/#1/s/0", 7)])
    progress.task_started(task("0/#1/s/0/#6/a"))
    (fold,) = progress.folds.values()
    assert fold.expected == 12


@pytest.mark.parametrize(
    ("state", "failed", "caught"),
    [
        (StepState.STATEMENT_CATCH_BEGIN, 0, 1),
        (StepState.STATEMENT_COMPLETE, 0, 1),
        (StepState.STATEMENT_ERROR, 1, 0),
    ],
)
def test_a_failure_is_caught_once_its_step_goes_on(state: str, failed: int, caught: int) -> None:
    progress = Progress()
    work(progress, task("0/a"), "no paper")
    progress.stored([step("0/a", state)])
    progress.stored([step("0/a", state)])
    (fold,) = progress.folds.values()
    assert (fold.failed, fold.caught, fold.error) == (failed, caught, "no paper")
    assert (progress.total.failed, progress.total.caught) == (failed, caught)


@pytest.mark.parametrize(
    ("caught_by", "state", "failed"),
    [
        ("0/outer", StepState.STATEMENT_CATCH_BEGIN, "0/outer/0/a"),
        ("0/outer", StepState.STATEMENT_COMPLETE, "0/outer/0/#1/b/0/a"),
        ("0/outer", StepState.STATEMENT_COMPLETE, "0/outer/!/a"),
    ],
)
def test_a_step_catches_the_failures_inside_it(caught_by: str, state: str, failed: str) -> None:
    progress = Progress()
    work(progress, task(failed), "no paper")
    work(progress, task("0/outermost/0/a"), "no ink")
    progress.stored([step(caught_by, state)])
    assert (progress.total.failed, progress.total.caught) == (1, 1)


def test_a_catch_does_not_catch_what_fails_in_itself() -> None:
    progress = Progress()
    work(progress, task("0/outer/!/a"), "no paper")
    progress.stored([step("0/outer", StepState.STATEMENT_CATCH_BEGIN)])
    assert (progress.total.failed, progress.total.caught) == (1, 0)


def test_an_attempt_that_is_made_again_is_no_failure() -> None:
    progress = Progress()
    for _ in range(2):
        progress.task_started(task("0/a"))
        progress.task_retried(task("0/a"), "busy", 200)
    (fold,) = progress.folds.values()
    assert (fold.delayed, fold.retries, fold.over, fold.is_many) == (1, 2, 0, False)
    assert fold.error == "busy; next attempt in 200 ms"
    work(progress, task("0/a"))
    assert (fold.delayed, fold.done, fold.failed, fold.error) == (0, 1, 0, "")


def test_attempts_are_shown() -> None:
    target = console(terminal=True)
    display = LiveDisplay(target)
    display.progress.task_started(task("0/a"))
    display.progress.task_retried(task("0/a"), "busy", 200)
    target.print(display.render())
    work(display.progress, task("0/a"))
    target.print(display.render())
    before, sums, after, _ = text_of(target).splitlines()
    assert "busy; next attempt in 200 ms" in before and "1 to be retried" in sums
    assert "✓" in after and "2 attempts" in after


def test_lines_tell_of_attempts() -> None:
    target = console(terminal=False)
    progress = LineProgress(target)
    progress.task_started(task("0/a"))
    progress.task_retried(task("0/a"), "busy", 200)
    assert text_of(target) == "a = t.Work: failed: busy; next attempt in 200 ms\n"


def test_signals_that_are_waited_for_are_told_once() -> None:
    target = console(terminal=False)
    progress = LineProgress(target)
    signals = [awaited(f"0/{n}", "signal:go on") for n in range(12)]
    progress.awaited([awaited("0/a", "agent:clerk"), awaited("ask", "human:finance"), *signals])
    progress.awaited([])
    progress.awaited(signals)
    lines = text_of(target).splitlines()
    asked = "waiting for someone in finance: afl approvals show ask"
    assert lines == [asked, *["waiting for a signal: afl signal run 'go on'"] * 9]


def test_the_live_table_has_signals_while_they_are_waited_for() -> None:
    target = console(terminal=True)
    display = LiveDisplay(target)
    display.progress.awaited([awaited(f"0/{n}", "signal:go") for n in range(5)])
    target.print(display.render())
    assert text_of(target).count("waiting for a signal: afl signal run go") == 3
    display.progress.awaited([])
    target.print(display.render())
    assert text_of(target).count("waiting for a signal") == 3


def awaited(path: str, via: str) -> TaskDefinition:
    return replace(task(path), uuid=path, via=via)


def test_durations_follow_the_clock() -> None:
    clock = Clock()
    progress = Progress(clock)
    progress.task_started(task("0/a"))
    clock.now = 2.0
    (fold,) = progress.folds.values()
    assert fold.seconds(clock()) == 2.0
    progress.task_ended(task("0/a"), None)
    clock.now = 9.0
    assert (fold.seconds(clock()), fold.latest) == (2.0, 2.0)


def test_the_live_table_has_a_line_per_place() -> None:
    target = console(terminal=True)
    display = LiveDisplay(target)
    display.progress.began("run", "t.W")
    display.progress.stored([loop("0/s/0", 10_000)])
    for index in range(2_000):
        work(display.progress, task(f"0/s/0/#{index}/a"))
    work(display.progress, task("0/b", "t.Other"), "no paper")
    target.print(display.render())
    lines = text_of(target).splitlines()
    assert len(lines) == 3
    assert "s.a" in lines[0] and "2000/10000" in lines[0]
    assert "✗" in lines[1] and "no paper" in lines[1]
    assert "2000 completed" in lines[2] and "1 failed" in lines[2]


def test_the_live_table_never_outgrows_the_terminal() -> None:
    target = console(terminal=True)
    display = LiveDisplay(target)
    for index in range(100):
        work(display.progress, task(f"0/s{index}"))
    target.print(display.render())
    lines = text_of(target).splitlines()
    assert len(lines) < target.height
    assert "and 80 more above" in lines[0]
    assert "s99" in lines[-2]


def test_plain_lines_are_few_for_many_steps() -> None:
    target = console(terminal=False)
    progress = LineProgress(target)
    progress.began("run", "t.W")
    progress.stored([loop("0", 10_000)])
    for index in range(10_000):
        work(progress, task(f"0/#{index}/a"))
    lines = text_of(target).splitlines()
    assert len(lines) < 50
    assert lines[0] == "run run of t.W"
    assert lines[-1] == "a = t.Work 10000/10000: 10000 completed"


def test_plain_lines_tell_every_one_of_the_first_failures() -> None:
    target = console(terminal=False)
    progress = LineProgress(target)
    for index in range(1_000):
        work(progress, task(f"0/#{index}/a"), "no paper\nat all" if index >= 500 else None)
    told = [line for line in text_of(target).splitlines() if "failed: no paper (" in line]
    assert len(told) == 10


def test_round_numbers() -> None:
    assert [number for number in range(1, 1001) if is_round(number)][8:20] == [
        *[9, 10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 200]
    ]


def test_quiet_shows_nothing_but_knows_the_run() -> None:
    display = display_for(quiet=True)
    with display:
        display.progress.began("run", "t.W")
    assert display.progress.run == "run"
