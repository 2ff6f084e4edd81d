"""`afl states` and `afl bulk`."""

from __future__ import annotations

import json
import re
from typing import NoReturn

import pytest
from support.command_line import Afl

from afl.kernel.errors import InputError
from afl.runtime.persistence import PersistenceAPI


@pytest.fixture
def made(afl: Afl, doubling: str) -> list[str]:
    """Three runs that nobody has begun."""
    return [afl("submit", doubling, "-i", f"n={n}", "--tag", f"day={n % 2}").out.strip() for n in range(3)]


def test_states_are_counted(afl: Afl, made: list[str]) -> None:
    afl("pause", made[0])
    lines = [line.split() for line in afl("states").out.splitlines()]
    assert lines == [["STATE", "RUNS"], ["created", "2"], ["paused", "1"]]
    counts = {each["state"]: each["count"] for each in json.loads(afl("states", "--json").out)}
    assert (counts["created"], counts["waiting:person"]) == (2, 0)


def test_a_list_shows_inputs_and_is_searched_by_them(afl: Afl, made: list[str]) -> None:
    assert "n=2" not in afl("list", "--state", "paused").out
    afl("pause", made[2])
    found = json.loads(afl("list", "--text", "day 1", "--json").out)["runs"]
    assert [each["run"] for each in found] == [made[1]]
    assert [each["inputs"] for each in found] == ["n=1 label=x"]
    assert afl("list", "--longer-than", "1h").err.startswith("No runs in /")
    refused = afl("list", "--within", "long")
    assert (refused.code, "'--within': a span of time is written like" in refused.err) == (2, True)


def test_a_dry_run_changes_nothing(afl: Afl, made: list[str]) -> None:
    done = afl("bulk", "cancel", "--tag", "day=0", "--dry-run")
    assert (done.code, done.err) == (0, "Would cancel 2 runs\n")
    assert [line.split()[0] for line in done.out.splitlines()] == ["RUN", made[2], made[0]]
    preview = json.loads(afl("bulk", "cancel", "--tag", "day=0", "--dry-run", "--json").out)
    assert (preview["action"], preview["count"], preview["more"]) == ("cancel", 2, False)
    assert "canceled" not in afl("list").out


def test_without_a_terminal_it_takes_a_yes(afl: Afl, made: list[str]) -> None:
    refused = afl("bulk", "cancel", "--tag", "day=0")
    assert refused.code == 1 and "add --yes to do it" in refused.err
    done = afl("bulk", "cancel", "--tag", "day=0", "--yes")
    assert (done.code, done.out, done.err) == (0, "", "Canceled 2 runs\n")
    assert len(re.findall("canceled", afl("list", "--state", "canceled").out)) >= 2
    again = ("bulk", "cancel", "--tag", "day=0")
    for words in (again, (*again, "--yes")):
        assert afl(*words).err == "No run to cancel matched the filters\n"
    assert json.loads(afl(*again, "--json").out)["done"] == 0
    assert afl(*again, "--dry-run").err == "Would cancel 0 runs\n"
    assert json.loads(afl("bulk", "prune", "--state", "canceled", "-y", "--json").out)["done"] == 2
    assert [each["run"] for each in json.loads(afl("list", "--json").out)["runs"]] == [made[1]]


def refuse(store: PersistenceAPI, name: str) -> NoReturn:
    raise InputError("no way")


def test_what_was_not_done_is_named(afl: Afl, made: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    afl("bulk", "cancel", "--state", "created", "--yes")
    monkeypatch.setattr("afl.operations.run.bulk.control.retry", refuse)
    done = afl("bulk", "retry", "--state", "canceled", "--yes")
    assert (done.code, done.err.splitlines()) == (
        1,
        ["Retrying 0 runs", *(f"Not {run}: no way" for run in made[::-1])],
    )


def test_a_filter_must_be_given(afl: Afl, made: list[str]) -> None:
    done = afl("bulk", "cancel", "--yes")
    assert done.code == 1 and "a bulk action needs a filter" in done.err
