"""The DAG as text, and the displays that follow a run."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from afl.cli.fleet_display import LineDisplay, LiveDisplay, display_for, frame_text, graph, line_text, summary
from afl.fleet.messages import LogLine, RunView, Status, TaskView
from afl.fleet.workflow import Subprocess, Task, Workflow
from afl.operations.fleet.fleet_dag import RunStanding, TaskLine, ending, task_lines
from afl.operations.fleet.fleet_follow import Away
from afl.operations.fleet.fleet_view import plain_payload

TRUE = Subprocess("true")
DIAMOND = Workflow(
    "d",
    "Diamond",
    {
        "top": Task("top", TRUE),
        "left": Task("left", TRUE, depends=("top",)),
        "right": Task("right", TRUE, depends=("top",)),
        "bottom": Task("bottom", TRUE, depends=("right", "left")),
        "alone": Task("Alone", TRUE),
    },
)
LINE = LogLine(
    position=1,
    workflow_id="d",
    workflow_name="Diamond",
    workflow_instance_id="run123456",
    task_name="Top",
    task_instance_id="t1",
    timestamp_ms=1_700_000_000_123,
    level="ERROR",
    payload="STDERR \x1b[31mred\x1b[0m \x1b]0;title\x07",
)


def run_view(status: Status = Status.RUNNING, **changes: object) -> RunView:
    view = RunView(
        run_id="run123456",
        workflow_id="d",
        workflow_name="Diamond",
        instance_id="run123456",
        status=status,
        params={},
        trigger="RUNWORKFLOW",
        agent_id="me@here/AG",
        attempt=1,
        epoch=1,
        created_at=0,
        started_at=1_000,
        ended_at=None,
        cancel_reason=None,
        error="",
        version=1,
    )
    fields = {name: getattr(view, name) for name in RunView.__struct_fields__}
    return RunView(**{**fields, **changes})


def standing(**statuses: Status) -> RunStanding:
    tasks = [replace(task, status=statuses.get(task.task_id)) for task in task_lines(DIAMOND)]
    return RunStanding(run_view(), DIAMOND, tuple(tasks))


def drawn(tasks: tuple[TaskLine, ...] | list[TaskLine]) -> list[str]:
    return [row.plain for row in graph(tasks, 5_000)]


def test_a_task_hangs_below_the_last_it_waits_for_and_names_the_others() -> None:
    assert [(task.guide, task.task_id, task.joins) for task in task_lines(DIAMOND)] == [
        ("", "top", ()),
        ("├─ ", "left", ()),
        ("└─ ", "right", ()),
        ("   └─ ", "bottom", ("left",)),
        ("", "alone", ()),
    ]


def test_a_chain_of_a_thousand_tasks_stays_narrow() -> None:
    tasks = {
        f"t{number}": Task("t", TRUE, depends=(f"t{number - 1}",) if number else ()) for number in range(1000)
    }
    found = task_lines(Workflow("c", "Chain", tasks))
    assert [task.task_id for task in found] == list(tasks)
    assert max(len(task.guide) for task in found) <= 40


def test_rows_say_state_duration_attempt_exit_code_and_error() -> None:
    top, left, right, bottom, alone = standing(
        top=Status.COMPLETED, left=Status.FAILED, right=Status.RUNNING, bottom=Status.SKIPPED
    ).tasks
    rows = drawn(
        [
            replace(top, started_at=1_000, ended_at=3_500),
            replace(left, exit_code=7, attempt=2),
            replace(right, started_at=4_000),
            replace(bottom, error="left failed"),
            alone,
        ]
    )
    assert rows[0] == "✓ top               2.5 s"
    assert rows[1].split() == ["├─", "✗", "left", "attempt", "2", "exit", "code", "7"]
    assert rows[2].split() == ["└─", "●", "right", "1.0", "s"]
    assert rows[3].endswith("  skipped  left failed  ⇠ left")
    assert rows[4].split() == ["·", "alone", "Alone"]


def test_a_failure_that_is_allowed_is_shown_as_such() -> None:
    tasks = {"a": Task("A", TRUE, allow_failure=True), "b": Task("B", TRUE)}
    told = TaskView(
        task_id="a",
        task_instance_id="a1",
        status=Status.FAILED,
        attempt=1,
        exit_code=3,
        started_at=None,
        ended_at=None,
        error="exit code 3",
    )
    lines = task_lines(Workflow("w", "W", tasks), {"a": told})
    assert drawn(lines)[0].split() == ["!", "a", "exit", "code", "3", "(allowed)"]
    found = RunStanding(run_view(Status.COMPLETED), None, lines)
    assert summary(found, 3_000).plain == "Diamond  COMPLETED  1/2 tasks, 1 failed (allowed)  2.0 s"


def test_the_summary_counts() -> None:
    found = summary(standing(top=Status.COMPLETED, left=Status.FAILED, right=Status.RUNNING), 3_000).plain
    assert found == "Diamond  RUNNING  2/5 tasks, 1 running, 1 failed  2.0 s"


def test_a_piece_of_a_long_line_is_told() -> None:
    assert [plain_payload(payload) for payload in ("STDOUT a", "STDOUT+ b")] == ["a", "⋯ b"]


def test_what_would_steer_the_terminal_is_made_harmless() -> None:
    assert plain_payload(LINE.payload) == "red \N{REPLACEMENT CHARACTER}]0;title\N{REPLACEMENT CHARACTER}"
    assert line_text(LINE, task=True).plain.endswith(".123 Top  " + plain_payload(LINE.payload))
    assert frame_text(LINE).startswith("[2023-11-14T22:13:20.123+00:00 ERROR] [run123456/t1] STDERR")


def terminal(height: int = 24) -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80, height=height, color_system=None)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_on_a_terminal_the_dag_is_live_below_the_lines() -> None:
    console = terminal()
    with LiveDisplay(console, console) as display:
        assert "waiting for the principal" in rendered(display)
        display.show(standing(top=Status.RUNNING))
        display.show([LINE])
        assert "└─ · bottom" in rendered(display) and "0/5 tasks, 1 running" in rendered(display)
        display.show(Away(1))
        assert "does not answer" in rendered(display)
        display.show(replace(standing(), run=run_view(Status.PENDING)))
        assert "waits for an agent" in rendered(display)
    assert "Top  red" in written(console) and "0/5 tasks" in written(console)


def rendered(display: LiveDisplay) -> str:
    console = terminal()
    console.print(display.render())
    return written(console)


def test_of_many_tasks_those_that_tell_most_are_shown() -> None:
    tasks = {f"t{number}": Task(f"t{number}", TRUE) for number in range(100)}
    lines = list(task_lines(Workflow("w", "Wide", tasks)))
    lines[3] = replace(lines[3], status=Status.COMPLETED, ended_at=10)
    lines[50] = replace(lines[50], status=Status.RUNNING)
    lines[99] = replace(lines[99], status=Status.FAILED)
    console = terminal(height=8)
    display = LiveDisplay(console, console)
    display.show(RunStanding(run_view(), None, tuple(lines)))
    rows = rendered(display).splitlines()
    assert [row.split()[1] for row in rows[:4]] == ["t0", "t3", "t50", "t99"]
    assert rows[4].strip() == "and 96 more tasks"


def test_elsewhere_each_task_is_told_once_per_state() -> None:
    told, lines = (Console(file=io.StringIO(), width=200) for _ in range(2))
    with LineDisplay(told, lines) as display:
        display.show(standing(top=Status.RUNNING, left=Status.PENDING))
        display.show(standing(top=Status.RUNNING))
        display.show(Away(1))
        display.show(Away(2))
        display.show(standing(top=Status.COMPLETED))
        display.show([LINE])
    assert [row.split()[0] for row in written(told).splitlines()] == ["RUNNING", "the", "COMPLETED"]
    assert written(lines).count("\n") == 1


def test_what_is_no_terminal_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    display = display_for()
    assert isinstance(display, LineDisplay)
    display.show([LINE])
    quiet = display_for(quiet=True)
    quiet.show([LINE])
    out, err = capsys.readouterr()
    assert out.count("Top") == 1 and err.count("Top") == 1


def test_the_ending_of_a_run_that_failed_while_it_was_being_canceled_is_its_error() -> None:
    failed = run_view(Status.FAILED, cancel_reason="not needed", error="a: exit code 1")
    canceled = run_view(Status.CANCELED, cancel_reason="not needed", error="canceled")
    assert [ending(each) for each in (failed, canceled)] == ["a: exit code 1", "not needed"]
