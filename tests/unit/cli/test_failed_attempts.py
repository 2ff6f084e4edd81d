"""The guilty line of a failing handler: wherever somebody looks for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl

SOURCE = """namespace t {
    event facet Fetch(url: String) => (text: String)
    workflow Page(url: String) => (text: String) andThen {
        page = Fetch(url = $.url) with Retry(attempts = 3, backoff = 0)
        yield Page(text = page.text)
    }
    workflow Site(url: String) => (text: String) andThen {
        home = Page(url = $.url) with Run(id = "home")
        yield Site(text = home.text)
    }
}
"""
AGENTS = """import logging
from afl import handler

def check(url):
    if not url.startswith("https:"):
        raise ValueError(f"not a secure address: {url}")  # the guilty line

@handler("t.Fetch")
def fetch(url, context):
    print(f"fetching, attempt {context.attempt}")
    logging.getLogger("their").warning("slow")
    if context.attempt < 3 and url.endswith("flaky"):
        check("http:")
    check(url)
    return {"text": url}
"""
GUILTY = 'raise ValueError(f"not a secure address: {url}")  # the guilty line'
PLACE = "agents.py:6 in check"


@pytest.fixture
def files(tmp_path: Path) -> None:
    (tmp_path / "page.afl").write_text(SOURCE)
    (tmp_path / "agents.py").write_text(AGENTS)


@pytest.fixture
def run(afl: Afl, files: None) -> str:
    """A run that failed, three times."""
    return str(failed(afl)["run"])


def failed(afl: Afl, url: str = "http://x") -> dict[str, Any]:
    out = afl("run", "page.afl", "t.Page", "-i", f"url={url}", "-a", "agents.py", "--json", "-q").out
    data: dict[str, Any] = json.loads(out[out.index("{") :])  # behind what the handler printed
    return data


def outcomes(attempts: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(each["number"], each["outcome"]) for each in attempts]


def check_attempts(attempts: list[dict[str, Any]]) -> None:
    assert outcomes(attempts) == [(1, "failed"), (2, "failed"), (3, "failed")]
    for each in attempts:
        assert GUILTY in each["traceback"]
        assert each["location"].endswith(PLACE)
        assert each["error_type"] == "ValueError"
        assert each["pid"] > 0
        assert 0 < each["queued"] <= each["started"] <= each["ended"]


def test_run_shows_it(afl: Afl, files: None) -> None:
    done = afl("run", "page.afl", "t.Page", "-i", "url=http://x", "-a", "agents.py")
    assert done.code == 1
    assert GUILTY in done.err
    assert "in attempt 3" in done.err
    assert "site-packages" not in done.err and "executor.py" not in done.err


def test_run_json_has_the_attempts(afl: Afl, files: None) -> None:
    check_attempts(failed(afl)["attempts"])


def test_show_has_a_row_for_each_attempt_and_the_traceback(afl: Afl, run: str) -> None:
    shown = afl("show", run).out
    assert shown.count(PLACE) >= 3
    assert GUILTY in shown
    assert "3 attempts (3 failed)" in shown
    check_attempts(json.loads(afl("show", run, "--json").out)["attempts"])


def test_show_has_the_attempts_of_a_step_that_was_retried_and_completed(afl: Afl, files: None) -> None:
    done = failed(afl, "https://flaky")
    assert done["outputs"] == {"text": "https://flaky"}
    shown = afl("show", done["run"]).out
    assert GUILTY in shown
    assert "Attempt 2 of page raised" in shown
    attempts = json.loads(afl("show", done["run"], "--json").out)["attempts"]
    assert outcomes(attempts) == [(1, "failed"), (2, "failed"), (3, "completed")]
    assert attempts[2]["pid"] == attempts[0]["pid"]


def test_logs_has_the_failures_and_what_was_printed(afl: Afl, run: str) -> None:
    lines = [json.loads(line) for line in afl("logs", run, "--json").out.splitlines()]
    assert [line["attempt"] for line in lines] == [1, 1, 1, 2, 2, 2, 3, 3, 3]
    printed, warned, ended = lines[3:6]
    assert printed["message"] == "fetching, attempt 2"
    assert (warned["level"], warned["message"]) == ("warning", "slow")
    assert ended["level"] == "error"
    assert "ValueError: not a secure address" in ended["message"]
    assert PLACE in ended["message"]


def test_logs_of_one_attempt(afl: Afl, run: str) -> None:
    text = afl("logs", run, "--attempt", "2").out
    assert "fetching, attempt 2" in text
    assert "attempt 2 failed" in text
    assert "attempt 1" not in text and "attempt 3" not in text


def test_logs_of_one_step(afl: Afl, run: str) -> None:
    assert "fetching, attempt 2" in afl("logs", f"{run}/page").out
    assert afl("logs", f"{run}/nothing").out == ""
    assert afl("logs", f"{run}/page", "--step", "page").code == 2


@pytest.mark.parametrize("of", ["run", "step", "task"])
def test_why_names_the_file_and_line(afl: Afl, run: str, of: str) -> None:
    task = json.loads(afl("tasks", "--run", run, "--json").out)[0]["task"]
    name = {"run": run, "step": f"{run}/page", "task": task}[of]
    assert PLACE in afl("why", name).out
    check_attempts(json.loads(afl("why", name, "--json").out)["attempts"])


def test_counts_match_the_attempts(afl: Afl, run: str) -> None:
    (task,) = json.loads(afl("tasks", "--run", run, "--json").out)
    assert (task["attempts"], task["failures"]) == (3, 3)
    assert "3 (3 failed)" in afl("tasks", "--run", run).out


def test_wait_shows_it(afl: Afl, run: str) -> None:
    done = afl("wait", run)
    assert done.code == 1
    assert GUILTY in done.err
    check_attempts(json.loads(afl("wait", run, "--json").out)["attempts"])


def test_the_failure_of_a_child_run_is_shown_for_its_parent(afl: Afl, files: None) -> None:
    done = afl("run", "page.afl", "t.Site", "-i", "url=http://x", "-a", "agents.py")
    assert GUILTY in done.err
    site = next(each["run"] for each in json.loads(afl("list", "--json").out)["runs"] if not each["parent"])
    for of in (site, f"{site}/home"):
        assert PLACE in afl("why", of).out
    assert GUILTY in afl("show", site).out
    waited = afl("wait", site, "--json").out
    check_attempts(json.loads(waited)["attempts"])


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--level", "error"], ["attempt 1 failed", "attempt 2 failed", "attempt 3 failed"]),
        (["--level", "warning", "--attempt", "2"], ["slow", "attempt 2 failed"]),
        (["--grep", "FETCHING", "--step", "page"], [f"fetching, attempt {each}" for each in (1, 2, 3)]),
        (["--step", "nothing"], []),
    ],
)
def test_logs_are_filtered(afl: Afl, run: str, options: list[str], expected: list[str]) -> None:
    lines = [json.loads(line)["message"] for line in afl("logs", run, "--json", *options).out.splitlines()]
    assert [each.partition(":")[0] for each in lines] == expected
