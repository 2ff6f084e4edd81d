"""`afl rerun` and `afl fork`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, Outcome


@pytest.fixture
def run(afl: Afl, doubling: str, agents: str) -> str:
    assert afl("run", doubling, "--agent", agents, "-i", "n=3", "-q").code == 0
    return str(json.loads(afl("list", "--json").out)["runs"][0]["run"])


def outputs(afl: Afl, run: str, agents: str) -> Any:
    done = afl("resume", run, "--agent", agents, "-q")
    assert done.code == 0, done.err
    return json.loads(done.out)


def new_run(done: Outcome) -> str:
    assert done.code == 0, done.err
    return done.out.strip()


def test_a_rerun_prints_its_id(afl: Afl, run: str, agents: str) -> None:
    done = afl("rerun", run[:20], "--input", "n=5", "-i", "label=7")
    again = new_run(done)
    assert done.err == f"Started t.Twice again; the next server starts it (or: afl resume {again})\n"
    assert outputs(afl, again, agents) == {"m": 20, "label": "7"}
    assert f"rerun of {run}" in afl("show", again).out
    assert f"started again: {again} (completed)" in afl("show", run).out


def test_a_rerun_with_inputs_that_do_not_fit(afl: Afl, run: str) -> None:
    refused = afl("rerun", run, "--input", "n=x")
    assert (refused.code, refused.out) == (1, "")
    assert "input 'n': expected Long, got String 'x'" in refused.err


def test_a_fork_prints_its_id(afl: Afl, run: str, agents: str) -> None:
    done = afl("fork", run, "b", "--set", "n=50")
    forked = new_run(done)
    assert "Forked run" in done.err and "1 completed step is kept, 1 is executed again" in done.err
    assert outputs(afl, forked, agents) == {"m": 100, "label": "x"}
    assert f"forked from {run} at b" in afl("show", forked).out
    assert f"forked at b: {forked} (completed)" in afl("show", run).out


def test_a_fork_with_another_result_and_program(
    afl: Afl, run: str, agents: str, doubling: str, tmp_path: Path
) -> None:
    forked = new_run(afl("fork", run, "b", "--result", "a.m=100"))
    assert outputs(afl, forked, agents) == {"m": 200, "label": "x"}
    source = (tmp_path / doubling).read_text()
    (tmp_path / "other.afl").write_text(source.replace("n = a.m", "n = a.m + 1"))
    done = afl("fork", run, "b", "--program", "other.afl", "--json")
    told = json.loads(done.out)
    assert (told["origin"], told["step"], told["kept"], told["again"]) == (run, "b", 1, 1)
    assert outputs(afl, told["run"], agents) == {"m": 14, "label": "x"}


def test_a_fork_with_a_program_that_does_not_fit(afl: Afl, run: str, doubling: str, tmp_path: Path) -> None:
    source = (tmp_path / doubling).read_text()
    (tmp_path / "other.afl").write_text(source.replace("Double(n: Long)", "Double(n: Long, k: Long = 1)"))
    refused = afl("fork", run, "b", "--program", "other.afl")
    assert (refused.code, refused.out) == (1, "")
    assert "error[program-misfit]" in refused.err
    assert "a: the signature of t.Double is another one" in refused.err
    (tmp_path / "broken.afl").write_text("workflow")
    assert afl("fork", run, "b", "--program", "broken.afl").code == 1


def test_pairs_that_are_none_are_wrong_usage(afl: Afl, run: str) -> None:
    assert afl("fork", run, "b", "--set", "n").code == 2
