"""Ids, names and tags of runs on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import Afl

SOURCE = "workflow W(n: Long = 1) => (n: Long) andThen { yield W(n = $.n) }\n"


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "w.afl").write_text(SOURCE)
    return "w.afl"


def test_a_submission_with_an_id_is_made_once(afl: Afl, file: str) -> None:
    first = afl("submit", file, "--id", "day-1", "--name", "Monday", "--tag", "team=data")
    assert (first.code, first.out.strip()) == (0, "day-1")
    assert afl("submit", file, "--id", "day-1").out.strip() == "day-1"
    other = afl("submit", file, "--id", "day-1", "--input", "n=2")
    assert other.code == 1 and "differs in its inputs" in other.err
    listed = afl("list", "--tag", "team=data").out
    assert "day-1" in listed and "Monday team=data" in listed
    assert "No runs" in afl("list", "--tag", "team=other").err
    assert afl("list", "--tag", "team").code == 2


def test_a_bad_id_or_tag_leaves_no_store_behind(afl: Afl, file: str, tmp_path: Path) -> None:
    before = sorted(tmp_path.iterdir())
    assert afl("submit", file, "--id", "a b").code == 1
    empty = afl("submit", file, "--id", "")
    assert empty.code == 2 and "the id is empty; without --id one is generated" in empty.err
    assert afl("submit", file, "--tag", "nothing").code == 2
    assert sorted(tmp_path.iterdir()) == before


def test_a_run_has_a_name_and_tags(afl: Afl, file: str) -> None:
    assert afl("run", file, "--name", "Nightly", "--tag", "a=1", "--tag", "b=2", "--quiet").code == 0
    assert "Nightly a=1 b=2" in afl("list", "--text", "nightly").out
    refused = afl("run", file, "--tag", "nothing")
    assert refused.code == 2 and "a tag is written key=value" in refused.err


def test_a_schedule_gives_its_runs_tags(afl: Afl, file: str) -> None:
    made = afl("schedule", file, "--cron", "@hourly", "--tag", "team=data", "--json")
    assert '"team": "data"' in made.out
