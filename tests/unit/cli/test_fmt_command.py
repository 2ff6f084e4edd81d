"""`afl fmt`."""

from __future__ import annotations

from pathlib import Path

from support.command_line import Afl

UGLY = "facet   A( x:Long )\n"
NEAT = "facet A(x: Long)\n"


def test_rewrites_files(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text(UGLY)
    done = afl("fmt", "a.afl")
    assert (done.code, done.out, done.err) == (0, "", "Reformatted a.afl\n")
    assert (tmp_path / "a.afl").read_text() == NEAT
    assert afl("fmt", "a.afl").err == ""


def test_check_changes_nothing(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text(UGLY)
    (tmp_path / "b.afl").write_text(NEAT)
    done = afl("fmt", "--check", "a.afl", "b.afl")
    assert done.code == 1
    assert done.err.startswith("Would reformat a.afl\n1 source(s) are not in the standard form")
    assert (tmp_path / "a.afl").read_text() == UGLY
    assert afl("fmt", "--check", "b.afl").code == 0


def test_standard_input(afl: Afl) -> None:
    assert afl("fmt", stdin=UGLY).out == NEAT
    assert afl("fmt", "-", stdin=UGLY).out == NEAT
    assert afl("fmt", "--check", stdin=UGLY).code == 1


def test_what_does_not_parse_is_told_and_left(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "a.afl").write_text("facet (")
    done = afl("fmt", "a.afl")
    assert done.code == 1
    assert "a.afl:1:7" in done.err
    assert (tmp_path / "a.afl").read_text() == "facet ("


def test_a_missing_file(afl: Afl) -> None:
    assert afl("fmt", "nope.afl").err.startswith("error[source-error]: File not found: nope.afl\n")
