"""`afl fleet ...` against a principal and an agent in processes of their own."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, afl, afl_process, environment
from support.eventually import eventually
from support.fleet_agents import AgentProcess, running_agent
from support.old_peer import OldPeer
from support.principals import PrincipalProcess, running_principal

from afl.cli.fleet_command import fleet as fleet_group
from afl.operations.fleet import fleet as operations
from afl.operations.fleet import fleet_view
from afl.operations.serialization import plain

__all__ = ["afl"]

FLOW = """
name: Flow
description: A diamond.
params: {word: {type: string, default: hi}, code: {type: integer, default: 0}}
tasks:
  top: {name: Top, config: !Subprocess {cmd: echo, args: ["{{ params.word }}"]}}
  left: {name: Left, depends: [top], config: !Subprocess {cmd: sh, args: [-c, "echo left >&2"]}}
  right:
    name: Right
    depends: [top]
    env: {CODE: "{{ params.code }}"}
    config: !Subprocess {cmd: sh, args: [-c, "exit $CODE"]}
  bottom: {name: Bottom, depends: [left, right], config: !Subprocess {cmd: echo, args: [bottom]}}
"""
SLOW = "name: Slow\ntasks: {a: {name: A, config: !Subprocess {cmd: sleep, args: ['600']}}}\n"
BAD = "name: Bad\ntaks: {}\n"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "workflows").mkdir()
    for name, text in (("flow", FLOW), ("slow", SLOW), ("bad", BAD)):
        (folder / "workflows" / f"{name}.yml").write_text(text)
    return folder


@pytest.fixture(scope="module")
def principal(place: Path) -> Iterator[PrincipalProcess]:
    with running_principal(place) as principal:
        yield principal


@pytest.fixture(scope="module")
def agent(principal: PrincipalProcess, place: Path) -> Iterator[AgentProcess]:
    with running_agent(principal.settings, place / "agent") as agent:
        with operations.connected(principal.settings) as client:
            eventually(lambda: any(each.alive for each in operations.agents(client)))
        yield agent


@pytest.fixture
def fleet(afl: Afl, principal: PrincipalProcess, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch) -> Afl:
    """`afl` with the principal's address."""
    clean(monkeypatch)
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
    monkeypatch.setenv("HOME", principal.settings.app_data_directory)
    return afl


def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CDKTR_")]:
        monkeypatch.delenv(name)


def test_a_run_that_is_followed_shows_tasks_and_lines_and_its_exit_code(fleet: Afl) -> None:
    done = fleet("fleet", "run", "flow", "--follow", "--param", "word=$(id)")
    assert done.code == 0, done.err
    assert [line.split("  ", 1)[1] for line in done.out.splitlines()] == ["$(id)", "left", "bottom"]
    assert "COMPLETED " in done.err and "└─ ✓ bottom" in done.err
    failed = fleet("fleet", "run", "flow", "--follow", "--param", "code=3")
    assert failed.code == 1
    assert "⊘ bottom" in failed.err and "right: exit code 3" in failed.err


def test_a_followed_run_as_json_has_its_tasks_and_nothing_else_on_standard_output(fleet: Afl) -> None:
    done = fleet("fleet", "run", "flow", "-f", "--param", "code=3", "--json")
    told = json.loads(done.out)
    run = told["run"]
    assert (done.code, run["status"], run["params"]) == (1, "FAILED", {"word": "hi", "code": 3})
    states = {task["task_id"]: (task["status"], task["exit_code"]) for task in told["tasks"]}
    assert states["right"] == ("FAILED", 3) and states["bottom"] == ("SKIPPED", None)
    assert "left" in done.err


def test_a_run_can_be_started_looked_at_and_canceled(fleet: Afl) -> None:
    run_id = fleet("fleet", "run", "slow").out.strip()
    eventually(lambda: "● a" in fleet("fleet", "status", run_id).out)
    assert f"run {run_id} of slow" in fleet("fleet", "status", run_id[-8:]).out
    canceled = fleet("fleet", "cancel", run_id, "--reason", "not needed")
    assert canceled.code == 0 and run_id in canceled.err
    eventually(
        lambda: json.loads(fleet("fleet", "status", run_id, "--json").out)["run"]["status"] == "CANCELED"
    )
    shown = fleet("fleet", "status", run_id).out
    assert "■ a" in shown and "canceled: not needed" in shown
    assert "not needed" in fleet("fleet", "status", "--workflow", "slow").out
    again = fleet("fleet", "cancel", run_id)
    assert again.code == 1 and "CANCELED already" in again.err


def as_json(found: Any) -> Any:
    return json.loads(json.dumps(plain(found)))


def test_json_has_the_form_of_the_http_api(fleet: Afl, principal: PrincipalProcess) -> None:
    started = json.loads(fleet("fleet", "run", "flow", "--json").out)
    assert started == {"run_id": started["run_id"], "workflow_id": "flow"}
    status = ("fleet", "status", started["run_id"], "--json")
    eventually(lambda: json.loads(fleet(*status).out)["run"]["status"] == "COMPLETED")
    with operations.connected(principal.settings) as client:
        assert json.loads(fleet(*status).out) == as_json(fleet_view.show(client, started["run_id"]))
        listed = json.loads(fleet("fleet", "list", "--json").out)["workflows"]
        assert listed == as_json(fleet_view.list_workflows(client))


def test_lists_of_workflows_runs_and_agents(fleet: Afl) -> None:
    run_id = json.loads(fleet("fleet", "run", "flow", "--json").out)["run_id"]
    listed = fleet("fleet", "list")
    assert re.search(r"^flow +Flow +4 +word\?, code\?", listed.out, re.MULTILINE)
    assert "bad.yml:2: taks: is not a key of a workflow; did you mean 'tasks'?" in listed.err
    told = json.loads(fleet("fleet", "list", "--json").out)
    assert [each["id"] for each in told["workflows"]] == ["flow", "hello", "slow"]
    assert {each["key"] for each in told["problems"]} == {"tasks", "taks"}
    runs = fleet("fleet", "status", "--workflow", "flow", "-n", "1")
    assert run_id in runs.out and "1 of 1 agent alive" in runs.err
    assert json.loads(fleet("fleet", "status", "--json").out)["runs"][0]["run_id"] == run_id
    assert json.loads(fleet("fleet", "status", "-s", "WAITING", "--json").out)["runs"] == []
    [agent] = json.loads(fleet("fleet", "agents", "--json").out)
    assert agent["alive"] and agent["agent_id"] in fleet("fleet", "agents").out


def test_lines_are_found_by_run_task_time_and_text(fleet: Afl) -> None:
    done = fleet("fleet", "run", "flow", "-f", "--param", "word=needle", "--json")
    run_id = json.loads(done.out)["run"]["run_id"]
    assert [line.split("  ", 1)[1] for line in fleet("fleet", "logs", "--run", run_id).out.splitlines()] == [
        "needle",
        "left",
        "bottom",
    ]
    found = fleet("fleet", "logs", "-w", "flow", "--grep", "^STDOUT need", "-v").out
    assert re.fullmatch(rf"\[\S+ INFO\] \[Flow={run_id} / Top=\w+\] STDOUT needle\n", found)
    for task in ("left", "Left"):
        rows = fleet("fleet", "logs", "-i", run_id, "--task", task, "--json").out.splitlines()
        assert [json.loads(row)["payload"] for row in rows] == ["STDERR left"]
    assert fleet("fleet", "logs", "-i", run_id, "--end", "2020-01-01T00:00:00").out == ""
    assert "needle" in fleet("fleet", "logs", "--since", "1h", "--start", "").out
    assert fleet("fleet", "logs", "--start", "yesterday").code == 1
    assert "not a regular expression" in fleet("fleet", "logs", "--grep", "(").err


def test_the_tail_prints_lines_as_they_come_and_ends_with_an_interrupt(fleet: Afl, tmp_path: Path) -> None:
    tail = subprocess.Popen(
        [sys.executable, "-m", "afl", "fleet", "logs", "--tail", "--workflow", "flow", "--grep", "tailed"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tail.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(tail.stdout, selectors.EVENT_READ)
        number = 0
        while not selector.select(0.5):  # it may not listen yet
            number += 1
            fleet("fleet", "run", "flow", "--param", f"word=tailed {number}")
    assert re.search(r"flow \w{6} Top  tailed \d+$", tail.stdout.readline().rstrip())
    tail.send_signal(signal.SIGINT)
    assert (tail.wait(), tail.communicate()[1]) == (130, "")


def test_mistakes_say_what_to_do(fleet: Afl, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "did you mean 'flow'?" in fleet("fleet", "run", "flw").err
    assert "bad.yml" in fleet("fleet", "run", "bad").err
    assert "expected a whole number" in fleet("fleet", "run", "flow", "--param", "code=x").err
    assert fleet("fleet", "run", "flow", "--param", "code").code == 2
    assert fleet("fleet", "status", "nothing").code == 1
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "50")
    away = fleet("fleet", "status", "--port", "1")
    assert away.code == 1 and "does not answer" in away.err


@pytest.mark.parametrize(
    "command",
    [
        "run flow",
        "run flow --follow",
        "status",
        "status abc",
        "list",
        "agents",
        "logs",
        "logs --tail",
        "cancel abc",
    ],
)
def test_every_command_says_at_the_first_attempt_that_there_is_no_principal(
    afl: Afl, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    clean(monkeypatch)
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "50")
    done = afl("fleet", *command.split(), "--port", "1")
    assert done.code == 1
    assert "the principal at tcp://127.0.0.1:1 does not answer" in done.err
    assert done.err.count("principal`") == 1, "how to start one is said once"


def test_a_long_timeout_does_not_keep_that_back(afl: Afl, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(monkeypatch)
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "3600000")
    assert afl("fleet", "status", "--port", "1").code == 1


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("status zzz", "there is no run 'zzz'; `afl fleet status` lists them"),
        ("cancel zzz", "there is no run 'zzz'"),
        ("logs --run zzz", "there is no run 'zzz'"),
        ("logs --tail --run zzz", "there is no run 'zzz'"),
        ("logs --workflow flw", "there is no workflow 'flw'; did you mean 'flow'?"),
        ("logs --tail --workflow flw", "there is no workflow 'flw'; did you mean 'flow'?"),
        ("status --workflow flw", "there is no workflow 'flw'; did you mean 'flow'?"),
        ("logs --task botom", "there is no task 'botom'; did you mean 'bottom'?"),
        ("logs --workflow slow --task bottom", "there is no task 'bottom' in workflow slow"),
        ("logs --tail --task botom", "there is no task 'botom'; did you mean 'bottom'?"),
    ],
)
def test_a_name_that_means_nothing_is_told(fleet: Afl, command: str, said: str) -> None:
    done = fleet("fleet", *command.split())
    assert (done.code, done.out) == (1, "")
    assert said in done.err


def test_a_run_is_found_by_the_id_that_an_old_agent_gave_it(fleet: Afl, principal: PrincipalProcess) -> None:
    with OldPeer(principal.settings) as peer:
        peer.ask("AGENTWORKFLOWSTATUS", "old", "elsewhere", "slim-auk-0", "RUNNING")
        peer.ask("AGENTWORKFLOWSTATUS", "old", "elsewhere", "slim-auk-0", "COMPLETED")
    assert (
        json.loads(fleet("fleet", "status", "slim-auk-0", "--json").out)["run"]["instance_id"] == "slim-auk-0"
    )
    assert fleet("fleet", "logs", "--run", "slim-auk-0", "--workflow", "elsewhere").code == 0


def test_a_folder_to_begin_with(afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(monkeypatch)
    done = afl("fleet", "init", "jobs")
    assert done.code == 0 and "afl fleet principal --with-agent" in done.err
    assert (tmp_path / "jobs" / "workflows" / "example.yml").exists()
    checked = afl("fleet", "check", "jobs/workflows", "--json")
    assert json.loads(checked.out) == {"workflows": ["example"], "problems": []}
    (tmp_path / "jobs" / "workflows" / "example.yml").write_text(BAD)
    assert "everything exists already" in afl("fleet", "init", "jobs").err
    assert (tmp_path / "jobs" / "workflows" / "example.yml").read_text() == BAD
    wrong = afl("fleet", "check", "jobs/workflows")
    assert wrong.code == 1 and "did you mean 'tasks'?" in wrong.err


def test_the_example_of_init_runs_at_once(fleet: Afl, place: Path, tmp_path: Path) -> None:
    fleet("fleet", "init")
    text = (tmp_path / "workflows" / "example.yml").read_text()
    (place / "workflows" / "example.yml").write_text(text)
    done = fleet("fleet", "run", "example", "--follow", "--param", "name=Ada")
    (place / "workflows" / "example.yml").unlink()
    assert done.code == 0 and "hello, Ada: done" in done.out


def test_settings_say_where_their_values_come_from(
    afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean(monkeypatch)
    (tmp_path / ".env").write_text("CDKTR_RETRY_ATTEMPTS=7\nCDKTR_PRINCIPAL_PORT=1\n")
    monkeypatch.setenv("CDKTR_PRINCIPAL_HOST", "localhost")
    monkeypatch.setenv("CDKTR_DB_PATH", "postgresql://me:hush@db/fleet")
    told = afl("fleet", "settings", "--port", "9", "--json")
    found = {row["variable"]: (row["value"], row["source"]) for row in json.loads(told.out)}
    assert found["CDKTR_RETRY_ATTEMPTS"] == ("7", ".env")
    assert found["CDKTR_PRINCIPAL_PORT"] == ("9", "option")
    assert found["CDKTR_PRINCIPAL_HOST"] == ("localhost", "environment")
    assert found["CDKTR_LOG_LEVEL"] == ("INFO", "default")
    assert "hush" not in told.out and "hush" not in afl("fleet", "settings").out


def test_a_dotenv_that_is_not_there_is_told(
    afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean(monkeypatch)
    said = f"there is no .env in {tmp_path}"
    assert said in afl("fleet", "settings").err
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "50")
    assert said in afl("fleet", "status", "--port", "1").err
    (tmp_path / ".env").write_text("CDKTR_RETRY_ATTEMPTS=7\n")
    assert said not in afl("fleet", "settings").err
    assert said not in afl("fleet", "status", "--port", "1").err


def test_keys_are_made_once(afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clean(monkeypatch)
    made = json.loads(afl("fleet", "keys", "keys", "--json").out)
    assert "keys/client.key_secret" in made
    assert (tmp_path / "keys" / "client.key_secret").stat().st_mode & 0o077 == 0
    other = json.loads(afl("fleet", "keys", "other", "--client", "--json").out)
    assert other == ["other/client.key_secret", "other/client.key"]
    again = afl("fleet", "keys", "keys")
    assert again.code == 1 and "exists" in again.err


def test_a_public_address_needs_keys(tmp_path: Path) -> None:
    done = afl_process("fleet", "principal", "--host", "0.0.0.0", folder=tmp_path, HOME=str(tmp_path))
    assert done.code == 1
    assert "afl fleet keys" in done.err and "--insecure" in done.err


COMMANDS = [command.name or "" for command in fleet_group.registered_commands]


def test_the_commands_of_the_issue_are_all_there() -> None:
    wanted = {"init", "principal", "agent", "run", "list", "status", "logs", "cancel", "keys", "ui"}
    assert wanted | {"agents", "settings", "check"} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples(afl: Afl, command: str) -> None:
    done = afl("fleet", command, "--help")
    assert done.code == 0 and f"afl fleet {command}" in done.out and "Examples" in done.out
