"""`afl submit`, `list`, `tasks`, `ps`, `why`, `logs`, `wait`, `retry`, `cancel`, `pause`, `unpause`, `prune`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, Outcome

from afl.kernel.clock import wall_ms
from afl.kernel.ids import random_id
from afl.runtime.entities import LogDefinition, ServerDefinition, TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store


def result(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


@contextmanager
def folder_store(folder: Path) -> Iterator[PersistenceAPI]:
    store = open_store(f"sqlite:///{folder}/.afl/afl.db")
    yield store
    store.close()


@pytest.fixture
def run(afl: Afl, doubling: str) -> str:
    """A run that was submitted."""
    return afl("submit", doubling, "-i", "n=5").out.strip()


def test_submit_prints_the_id_alone(afl: Afl, doubling: str) -> None:
    done = afl("submit", doubling, "--input", "n=5", "--task-list", "night")
    assert (done.code, done.err, len(done.out.split())) == (0, "", 1)
    told = result(afl("submit", doubling, "-i", "n=5", "--json"))
    assert (told["workflow"], told["task_list"]) == ("t.Twice", "default")
    assert [each["task_list"] for each in result(afl("list", "--json"))["runs"]] == ["default", "night"]


def test_submit_checks_source_and_inputs(afl: Afl, doubling: str, tmp_path: Path) -> None:
    assert "input 'n' is missing" in afl("submit", doubling).err
    assert afl("submit", doubling, "-i", "n").code == 2
    (tmp_path / "bad.afl").write_text("workflow {")
    assert afl("submit", "bad.afl").code == 1
    assert not (tmp_path / ".afl").exists()


def test_a_submitted_run_is_shown_as_not_begun(afl: Afl, run: str) -> None:
    assert afl("show").out.startswith(f"{run}  created, 0 steps\n· t.Twice  not begun")


def test_a_budget_is_shown(afl: Afl, doubling: str) -> None:
    run = afl("submit", doubling, "-i", "n=5", "--budget-usd", "2.5", "--budget-tokens", "1000").out.strip()
    assert "0 calls of models, 0 tokens, $0.0000; budget $2.50 and 1,000 tokens" in afl("show", run).out
    assert result(afl("show", run, "--json"))["budget"]["usd"] == 2.5
    afl("pause", run)
    assert afl("unpause", run, "--budget-usd", "5").code == 0
    assert result(afl("show", run, "--json"))["budget"]["usd"] == 5


def test_an_empty_log_is_told_beside_the_output(afl: Afl, doubling: str) -> None:
    run = afl("submit", doubling, "-i", "n=5").out.strip()
    found = afl("logs", run)
    assert (found.code, found.out, found.err) == (0, "", f"Run {run} has no log entries\n")
    assert afl("logs", run, "--grep", "x").err == f"Run {run} has no log entries that match\n"
    assert afl("logs", run, "--json").err == ""


def test_a_comparison_has_errors_among_the_differences(afl: Afl, doubling: str, agents: str) -> None:
    good, bad = (afl("submit", doubling, "-i", f"n={n}").out.strip() for n in (5, 13))
    for run in (good, bad):
        afl("resume", run, "--agent", agents)
    (step,) = [line for line in afl("diff", good, bad).out.splitlines() if line.startswith("a ")]
    assert step.endswith("error: none → thirteen is not doubled")


def test_list_and_its_pages(afl: Afl, doubling: str, agents: str) -> None:
    made = [afl("submit", doubling, "-i", "n=5").out.strip() for _ in range(3)]
    afl("resume", made[0], "--agent", agents)
    first = afl("list", "-n", "2")
    assert [line.split()[0] for line in first.out.splitlines()] == ["RUN", made[2], made[1]]
    assert f"More: the same command with --before {made[1]}" in first.err
    second = result(afl("list", "--before", made[1], "--json"))
    assert ([each["run"] for each in second["runs"]], second["next"]) == ([made[0]], "")
    assert "completed" in afl("list", "--state", "completed").out
    assert afl("list", "--workflow", "t.Other").err.startswith("No runs in /")
    assert "there is no run zzz" in afl("list", "--before", "zzz").err


def test_a_failed_run_in_the_list(afl: Afl, doubling: str, agents: str) -> None:
    afl("run", doubling, "-i", "n=13", "-a", agents)
    assert "thirteen is not doubled" in afl("list").out


def test_tasks(afl: Afl, run: str) -> None:
    assert afl("tasks").err.startswith("No tasks in /")
    afl("resume", run)
    heading, line = afl("tasks").out.splitlines()
    assert heading.split() == ["TASK", "FACET", "STATE", "AGE", "TRIES", "LIST", "STEP"]
    words = line.split()
    assert (words[1:3], words[-1]) == (["t.Double", "pending"], f"{run}/a")
    (task,) = result(afl("tasks", "--run", run, "--json"))
    assert (task["step_id"], task["attempts"], task["hold"]) == (f"{run}/0/a", 0, "")
    afl("pause", run)
    assert "pending (paused)" in afl("tasks").out


def test_ps(afl: Afl, run: str, tmp_path: Path) -> None:
    assert afl("ps").err.startswith("No server in /")
    with folder_store(tmp_path) as store:
        now = wall_ms()
        names = [f"t.F{number}" for number in range(6)]
        common = {"server_group": "default", "service_name": "afl-agent", "start_time": now, "ping_time": now}
        fields = {**common, "handlers": names, "capacity": 5, "manager": store.owner_id}
        store.save_server(ServerDefinition("one", server_name="host-1", state="running", **fields))  # type: ignore[arg-type]
        store.save_server(ServerDefinition("two", server_name="host-2", state="shutdown", **fields))  # type: ignore[arg-type]
        shown = afl("ps").out.splitlines()
    assert len(shown) == 2
    assert shown[1].split()[:4] == ["one", "afl-agent", "host-1", "running"]
    assert ", ".join(names) in shown[1]
    assert [(each["id"], each["liveness"]) for each in result(afl("ps", "--all", "--json"))] == [
        ("one", "dead"),
        ("two", "stopped"),
    ]
    assert afl("ps").err.endswith("/afl.db now; 2 stopped or died (afl ps --all)\n")


def test_why(afl: Afl, run: str) -> None:
    afl("resume", run)
    lines = afl("why", run).out.splitlines()
    assert lines[0] == f"run {run}: it waits for one step: a."
    assert lines[-1] == "-> Start an agent for it: afl agent MODULE  [task-unserved]"
    told = result(afl("why", f"{run}/b", "--json"))
    assert (told["kind"], told["code"], told["outlook"]) == ("step", "task-unserved", "stands")
    assert [each["code"] for each in told["chain"]] == [
        *["step-waits-for-step", "step-waits-for-agent", "task-unserved"]
    ]
    assert "there is no run, task or server 'zzz'" in afl("why", "zzz").err


def test_pause_unpause_and_cancel(afl: Afl, run: str) -> None:
    assert afl("pause", run).err == f"Paused run {run} of t.Twice\n"
    again = afl("pause", run)
    assert (again.code, again.err) == (1, f"error[refused]: run {run} is paused; nothing was changed\n")
    told = result(afl("unpause", run, "--json"))
    assert (told["run"], told["changed"], told["why"]) == (run, True, "")
    assert afl("cancel", run).err == f"Canceled run {run} of t.Twice\n"
    assert afl("cancel", run, "--json").code == 1
    assert "there is no run zzz" in afl("cancel", "zzz").err


def test_retry(afl: Afl, doubling: str, agents: str, tmp_path: Path) -> None:
    run = result_of_failure(afl, doubling, agents)
    assert afl("retry", run).err.startswith(f"Retrying 1 step of run {run}")
    text = (tmp_path / agents).read_text().replace("n == 13", "n == -1")
    (tmp_path / "mended.py").write_text(text)
    assert result(afl("resume", run, "--agent", "mended.py"))["m"] == 52
    refused = afl("retry", run)
    assert refused.code == 1 and "completed" in refused.err
    assert result(afl("retry", result_of_failure(afl, doubling, agents) + "/a", "--json"))["steps"] == 1


def result_of_failure(afl: Afl, doubling: str, agents: str) -> str:
    return str(json.loads(afl("run", doubling, "-i", "n=13", "-a", agents, "--json").out)["run"])


def test_logs(afl: Afl, run: str, tmp_path: Path) -> None:
    with folder_store(tmp_path) as store:
        entry = LogDefinition(random_id(), 1, run, f"{run}/0/a", message="parsing", details={"progress": 0.4})
        late = LogDefinition(random_id(), 2, run, None, message="odd", note_type="warning", time=wall_ms())
        store.save_logs([entry, late])
    lines = afl("logs", run).out.splitlines()
    assert lines[0].endswith("  a  40% parsing")
    assert lines[1].endswith("  warning: odd")
    afl("cancel", run)
    followed = afl("logs", "-f", run, "--json").out.splitlines()
    assert [json.loads(line)["message"] for line in followed] == ["parsing", "odd"]


def test_wait(afl: Afl, run: str, doubling: str, agents: str) -> None:
    early = afl("wait", run, "--timeout", "1ms")
    assert (early.code, early.out) == (3, "")
    assert f"Run {run} is still created; afl why {run}" in early.err
    afl("resume", run, "--agent", agents)
    assert result(afl("wait", run)) == {"m": 20, "label": "x"}
    told = result(afl("wait", run, "--json"))
    assert (told["state"], told["timed_out"]) == ("completed", False)
    failed = afl("wait", result_of_failure(afl, doubling, agents))
    assert failed.code == 1 and "thirteen is not doubled" in failed.err
    other = afl("submit", doubling, "-i", "n=5").out.strip()
    afl("cancel", other)
    canceled = afl("wait", other)
    assert (canceled.code, canceled.out) == (1, "")
    assert "was canceled: canceled by operator" in canceled.err
    soon = afl("wait", other, "--timeout", "soon")
    assert (soon.code, "a span of time is written like" in soon.err) == (2, True)


def test_prune(afl: Afl, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    afl("cancel", run)
    assert "give an age" in afl("prune").err
    assert afl("prune", "--older-than", "1d").err.startswith("Removed 0 runs that ended before")
    assert result(afl("prune", "--older-than", "0s", "--dry-run", "--json"))["runs"] == 1
    assert afl("prune", "--older-than", "0s").err.startswith("Removed 1 run that ended")
    with folder_store(Path.cwd()) as store:
        for uuid in ("a", "b"):
            store.save_task(TaskDefinition(uuid, "ns.F", "", "", "", "", state=TaskState.FAILED, updated=1))
    assert afl("prune", "--older-than", "1d").err.startswith(
        "Removed 0 runs and 2 tasks of no run that ended"
    )
    monkeypatch.setenv("AFL_RETENTION_DAYS", "30")
    assert result(afl("prune", "--json"))["runs"] == 0


def test_schedules(afl: Afl, doubling: str) -> None:
    assert afl("schedule", doubling, "-i", "n=5").code == 2
    done = afl("schedule", doubling, "-i", "n=5", "--cron", "0 6 * * 1-5", "--zone", "Europe/Berlin")
    assert done.err.startswith("Schedule t.Twice: first 20")
    other = result(afl("schedule", doubling, "-i", "n=5", "--cron", "@daily", "--name", "b", "--json"))
    assert (other["name"], other["catch_up"], other["task_list"]) == ("b", "latest", "default")
    lines = afl("schedules", "--pause", "b")
    assert lines.err == "Paused schedule b\n"
    again = afl("schedule", doubling, "-i", "n=5", "--cron", "@daily", "--name", "b", "--overlap", "skip")
    assert again.err == "Schedule b: it stays paused (afl schedules --unpause b)\n"
    assert [each["overlap"] for each in result(afl("schedules", "--json"))] == ["skip", "allow"]
    assert [line.split()[0] for line in lines.out.splitlines()] == ["SCHEDULE", "b", "t.Twice"]
    assert "paused" in lines.out
    assert afl("schedules", "--unpause", "b").err.startswith("Unpaused schedule b: next 20")
    assert [each["name"] for each in result(afl("schedules", "--remove", "b", "--json"))] == ["t.Twice"]
    assert "there is no schedule 'b'" in afl("schedules", "--remove", "b").err
    assert afl("schedules", "--remove", "t.Twice").err.endswith("/.afl/afl.db\n")
    assert "cron" in afl("schedule", doubling, "-i", "n=5", "--cron", "often").err


def test_a_schedule_with_an_input_for_the_time(afl: Afl, tmp_path: Path) -> None:
    file = tmp_path / "report.afl"
    file.write_text(
        "workflow Report(day: String, n: Long = 1) => (d: String) andThen { yield Report(d = $.day) }"
    )
    timed = ("schedule", str(file), "--cron", "@daily", "--time-input")
    made = result(afl(*timed, "day", "--json"))
    assert (made["inputs"], made["time_input"]) == ({}, "day")
    assert "input 'day' is given twice" in afl(*timed, "day", "-i", "day=x").err
    assert "unknown input 'dya'; did you mean 'day'?" in afl(*timed, "dya").err
    assert "input 'n': expected Long, got String" in afl(*timed, "n", "-i", "day=x").err


@pytest.mark.parametrize("name", ["list", "tasks", "ps", "why", "logs", "schedules", "show"])
def test_a_store_that_is_not_there_is_not_made(afl: Afl, tmp_path: Path, name: str) -> None:
    done = afl(name)
    assert done.code == 1
    assert f"there is no store {tmp_path}/.afl/afl.db yet" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        *[
            "submit",
            "wait",
            "list",
            "show",
            "logs",
            "why",
            "tasks",
            "ps",
            "retry",
            "cancel",
            "pause",
            "unpause",
        ],
        *["schedule", "schedules", "prune", "status"],
    ],
)
def test_every_operating_command_has_json_and_examples(afl: Afl, name: str) -> None:
    told = afl(name, "--help").out
    assert "--json" in told
    assert "Examples" in told
