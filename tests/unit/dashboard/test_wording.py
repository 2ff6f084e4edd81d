"""How pages put values into words."""

from __future__ import annotations

import pytest

from afl.dashboard.drawings import bar, counts_text, curve
from afl.dashboard.wording import ago, as_json, duration, plural, short, size, step_url, tone, with_query
from afl.kernel.clock import wall_ms
from afl.operations.run.run_graph import GraphNode
from afl.operations.run.run_tree import Counts


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (None, "–"),
        (-5, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (99_900, "99.9 s"),
        (100_000, "1 min 40 s"),
        (3_600_000, "1 h 00 min"),
        (49 * 3_600_000, "2 d 01 h"),
    ],
)
def test_durations(milliseconds: float | None, text: str) -> None:
    assert duration(milliseconds) == text


def test_moments() -> None:
    assert ago(0) == "–"
    assert ago(wall_ms()) == "now"
    assert ago(wall_ms() - 90_000) == "1 min ago"
    assert ago(wall_ms() + 7_300_000) == "in 2 h 1 min"


def test_states_have_one_tone_in_every_spelling() -> None:
    assert [tone(word) for word in ("completed", "DONE", "failed", "canceled", "canceled", "whatever")] == [
        "done",
        "done",
        "failed",
        "ended",
        "ended",
        "idle",
    ]


def test_runs_that_wait_until_somebody_acts_have_the_tone_of_waiting() -> None:
    assert [tone(f"waiting for {each}") for each in ("a person", "a budget", "an agent", "a timer")] == [
        "waiting",
        "waiting",
        "waiting",
        "idle",
    ]


def test_paths_of_steps_survive_a_url() -> None:
    assert step_url("r", "0/all/0/#3/>0") == "/runs/r/steps/0/all/0/%233/%3E0"
    assert step_url("r", "0/p/0/?1") == "/runs/r/steps/0/p/0/%3F1"
    assert step_url("r", "") == "/runs/r"
    assert with_query("/runs", state="", text="a&b") == "/runs?text=a%26b"


def test_long_values_are_cut() -> None:
    assert as_json({"a": "x" * 100_000}).endswith("more characters")
    assert short("a  b\nc", 3) == "a …"
    assert [size({}), size([1]), size("ab")] == ["0 fields", "1 item", "2 characters"]
    assert plural(2, "run") == "2 runs"


def node(counts: Counts, many: bool = True) -> GraphNode:
    return GraphNode(
        "0/a", "", "step", "a", "", "", None, many, False, False, 0, 0, 1, 1, "completed", counts
    )


def test_counts_of_a_node() -> None:
    assert counts_text(node(Counts(completed=2, failed=1, waiting=1))) == "3/4"
    assert counts_text(node(Counts(completed=1_200))) == "×1,200"
    assert counts_text(node(Counts(completed=1), many=False)) == ""
    assert bar(Counts(completed=3, failed=1)) == [("done", 0.0, 75.0), ("failed", 75.0, 25.0)]
    assert bar(Counts()) == []


def test_edges_leave_boxes_straight_down() -> None:
    assert curve(((0, 0), (0, 10))) == "M24 24L24 34"
    assert curve(((0, 0), (10, 10))) == "M24 24C24 29 34 29 34 34"
