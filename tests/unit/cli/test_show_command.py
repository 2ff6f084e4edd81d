"""`afl show`: a run as a tree."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import Afl

LOOP = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Each(xs: [Long]) => (ys: [Long]) andThen foreach x in $.xs {
        a = Double(n = x) catch {
            yield Double(m = 0)
        }
        yield Each(ys = [a.m])
    }
}
"""


@pytest.fixture
def loop(tmp_path: Path) -> str:
    (tmp_path / "loop.afl").write_text(LOOP)
    return "loop.afl"


def start(afl: Afl, *args: str) -> str:
    return str(json.loads(afl("run", "--json", *args).out)["run"])


def test_a_completed_run(afl: Afl, doubling: str, agents: str) -> None:
    run = start(afl, doubling, "-i", "n=5", "-a", agents)
    done = afl("show", run)
    lines = done.out.splitlines()
    assert (done.code, done.err) == (0, "")
    assert lines[0] == f"{run}  completed, 5 steps"
    assert [line.rpartition("  ")[0] for line in lines[1:]] == [
        "✓ t.Twice",
        "├── ✓ a = t.Double",
        "└── ✓ b = t.Double",
    ]


def test_the_beginning_of_an_id_is_enough_and_none_is_the_latest(
    afl: Afl, doubling: str, agents: str
) -> None:
    run = start(afl, doubling, "-i", "n=5", "-a", agents)
    assert afl("show", run[:20]).out == afl("show").out
    assert afl("show").out.startswith(run)


def test_the_beginning_of_several_ids_is_not_enough(afl: Afl, doubling: str, agents: str) -> None:
    first = start(afl, doubling, "-i", "n=5", "-a", agents)
    second = start(afl, doubling, "-i", "n=6", "-a", agents)
    done = afl("show", first[:4])
    assert done.code == 1
    assert f"2 runs start with {first[:4]}" in done.err
    assert first in done.err and second in done.err


def test_foreach_is_folded_and_a_caught_failure_told(afl: Afl, loop: str, agents: str) -> None:
    start(afl, loop, "-i", f"xs={[*range(9), 13]}", "-a", agents)
    out = afl("show").out
    assert "foreach x" in out
    assert "! a = t.Double  ×10 (9 completed, 1 caught)" in out
    assert "caught: thirteen is not doubled" in out
    attempts = out.splitlines()[6:]
    assert attempts[0].startswith("STEP ")
    assert attempts[1].startswith("[9].a  1        failed")
    assert attempts[2:4] == ["", "Attempt 1 of [9].a raised:"]


def test_a_failed_run_names_step_place_and_cause(afl: Afl, doubling: str, agents: str) -> None:
    start(afl, doubling, "-i", "n=13", "-a", agents)
    out = afl("show").out
    assert "✗ a = t.Double  failed" in out
    assert "error[ValueError] doubling.afl:4:9: thirteen is not doubled" in out


def test_a_waiting_run(afl: Afl, loop: str) -> None:
    start(afl, loop, "-i", "xs=[1,2]")
    out = afl("show").out
    assert out.splitlines()[0].endswith("  waiting for an agent, 6 steps")
    assert "… a = t.Double  ×2 (2 waiting)" in out


def test_a_canceled_run_waits_for_nobody(afl: Afl, loop: str) -> None:
    afl("cancel", start(afl, loop, "-i", "xs=[1]"))
    out = afl("show").out
    assert "  canceled (canceled by operator" in out.splitlines()[0]
    assert "– t.Each  canceled" in out and "running" not in out


def test_an_unknown_run_lists_the_latest(afl: Afl, doubling: str, agents: str) -> None:
    run = start(afl, doubling, "-i", "n=5", "-a", agents)
    done = afl("show", "zzz")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error[unknown-run]: there is no run zzz in this store\n  hint: ")
    assert "\nThe latest runs are:\n" in done.err
    assert f"{run}  " in done.err and "completed  t.Twice" in done.err


def test_a_step_in_place_of_a_run_is_told_as_one(afl: Afl, doubling: str, agents: str) -> None:
    run = start(afl, doubling, "-i", "n=5", "-a", agents)
    done = afl("show", f"{run}/a")
    assert (done.code, done.out) == (1, "")
    assert f"there is no run {run}/a; a step is called so, of run {run}\n" in done.err
    assert "afl why RUN/STEP" in done.err


def test_no_run_at_all(afl: Afl, doubling: str, tmp_path: Path) -> None:
    afl("run", doubling, "-i", "n=1", "--store", "memory://")
    done = afl("show")
    assert done.code == 1
    assert f"there is no store {tmp_path}/.afl/afl.db yet" in done.err


def test_a_missing_key_is_more_than_its_name(afl: Afl, doubling: str, tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(
        "from afl import handler\n\n@handler(\"t.Double\")\ndef double(n):\n    return {}['gone']\n"
    )
    failed = afl("run", doubling, "-i", "n=5", "-a", "agents.py")
    assert failed.code == 1
    assert failed.err.count("KeyError") == 2  # what failed, and the last line of the traceback
    for command in ("show", "list"):
        assert "KeyError: 'gone'" in afl(command).out
