"""`afl flows`: publish, list, show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.command_line import Afl, Outcome


def result(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_a_source_is_kept_listed_and_shown(afl: Afl, doubling: str, tmp_path: Path) -> None:
    source = (tmp_path / doubling).read_text()
    assert afl("flows", "publish", doubling, "--name", "twice").err == "Published twice: t.Twice\n"
    (line,) = result(afl("flows", "--json"))["flows"]
    assert (line["name"], line["workflows"], line["runs"]) == ("twice", 1, 0)
    heading, row = afl("flows").out.splitlines()
    assert heading.split() == ["FLOW", "STORED", "WORKFLOWS", "RUNS", "ID"]
    assert (row.split()[0], row.split()[-1]) == ("twice", line["id"])
    shown = afl("flows", "show", line["id"][:8]).out
    assert "t.Twice" in shown
    assert "n: Long, label: String" in shown
    assert afl("flows", "show", "twice", "--source").out == source
    assert result(afl("flows", "show", "twice", "--compiled"))["type"] == "Program"
    view = result(afl("flows", "show", "twice", "--json"))
    assert (view["sources"][0]["content"], view["program"]["type"]) == (source, "Program")


def test_the_pages_of_the_list(afl: Afl, doubling: str) -> None:
    for name in ("a", "b", "c"):
        afl("flows", "publish", doubling, "--name", name)
    first = afl("flows", "--limit", "2", "--json")
    behind = afl("flows", "list", "--before", result(first)["next"], "--json")
    names = [each["name"] for each in (*result(first)["flows"], *result(behind)["flows"])]
    assert names == ["c", "b", "a"]
    assert "More: the same command with --before " in afl("flows", "-n", "2").err


def test_what_is_wrong_is_said(afl: Afl, doubling: str, tmp_path: Path) -> None:
    (tmp_path / "broken.afl").write_text("workflow {")
    refused = afl("flows", "publish", "broken.afl")
    assert (refused.code, " broken.afl:1:10: " in refused.err) == (1, True)
    assert not (tmp_path / ".afl" / "afl.db").exists() or result(afl("flows", "--json"))["flows"] == []
    afl("submit", doubling, "-i", "n=5")
    assert "; `afl flows publish FILE` stores one" in afl("flows").err
    gone = afl("flows", "show", "nope")
    assert (gone.code, "there is no flow 'nope'" in gone.err) == (1, True)
    assert afl("flows", "show", "x", "--source", "--json").code == 2
