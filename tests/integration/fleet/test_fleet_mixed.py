"""An agent of the reference beside ours: what it is given, what is kept from it, and a day with both."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.command_line import Afl, afl
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.fleet_story import ended, lines, shown
from support.old_peer import OldPeer
from support.principals import PrincipalProcess, running_principal
from support.reference_agent import ReferenceAgent, read_listing, read_workflow

from afl.fleet.client import Client
from afl.fleet.messages import RunView, Status
from afl.fleet.requests import ListDefinitions, ListRuns, RunWorkflow

__all__ = ["afl"]

GREET = """
name: Greet
params: {day: string, dry_run: {type: boolean, default: false}}
overlap: queue
on_crash: requeue
tasks:
  greet:
    name: Greet
    config: !Subprocess {cmd: echo, args: [good, "{{ params.day }}", "--dry={{ params.dry_run }}"]}
"""
DIAMOND = """
name: Diamond
tasks:
  top: {name: Top, config: !Subprocess {cmd: echo, args: [top]}}
  left: {name: Left, depends: [top], config: !Subprocess {cmd: echo, args: [left]}}
  right: {name: Right, depends: [top], config: !Subprocess {cmd: echo, args: [right]}}
  end: {name: End, depends: [left, right], config: !Subprocess {cmd: echo, args: [end]}}
"""
CAREFUL = """
name: Careful
tasks:
  fetch:
    name: Fetch
    retries: {attempts: 3, backoff: 10ms}
    timeout: 60
    config: !Subprocess {cmd: sh, args: [-c, 'echo attempt $AFL_TASK_ATTEMPT; test $AFL_TASK_ATTEMPT = 2']}
"""
TIDY = """
name: Tidy
max_parallel: 1
tasks:
  fail: {name: Fail, allow_failure: true, config: !Subprocess {cmd: "false"}}
  say: {name: Say, env: {WHO: us}, working_directory: /, config: !Subprocess {cmd: sh, args: [-c, "echo $WHO $PWD"]}}
  tidy: {name: Tidy, depends: [fail], when: always, config: !Subprocess {cmd: echo, args: [tidy]}}
"""
CLUSTER = "name: Cluster\ntasks:\n  a: {name: A, config: !Ray {cmd: echo, args: [hi]}}\n"
FILES = {"greet": GREET, "diamond": DIAMOND, "careful": CAREFUL, "tidy": TIDY, "gpu.cluster": CLUSTER}


@contextmanager
def old_agent(principal: PrincipalProcess, name: str = "me@box/AG1") -> Iterator[ReferenceAgent]:
    settings = principal.settings
    with ReferenceAgent(
        settings.principal_host, settings.principal_port, settings.logs_listening_port, name
    ) as agent:
        yield agent
    assert agent.failure is None, agent.failure


def started(client: Client, workflow_id: str, **params: object) -> str:
    return client.call(RunWorkflow(workflow_id=workflow_id, params=params), retry=True).run_id


def test_an_old_peer_can_read_the_listing_whatever_the_files_hold(tmp_path: Path) -> None:
    with running_principal(tmp_path, FILES) as principal, OldPeer(principal.settings) as peer:
        kind, _, payload = peer.ask("LSWORKFLOWS").decode().partition("\x01")
        assert kind == "SUCCESS"
        assert sorted(read_listing(payload)) == ["careful", "diamond", "greet", "hello", "tidy"]
        with Client(principal.settings) as client:
            assert sorted(client.call(ListDefinitions())) == sorted([*FILES, "hello"])


def test_an_old_agent_gets_values_and_nothing_it_does_not_understand(tmp_path: Path) -> None:
    with (
        running_principal(tmp_path, FILES) as principal,
        OldPeer(principal.settings) as peer,
        Client(principal.settings) as client,
    ):
        for name in ("careful", "tidy", "gpu.cluster"):
            started(client, name)
        started(client, "greet", day="monday", dry_run=True)
        peer.ask("REGISTERAGENT", "old")
        kind, _, payload = peer.ask("FETCHWORKFLOW", "old").decode().partition("\x01")
        assert kind == "SUCCESS"
        workflow = read_workflow(json.loads(payload))
        assert workflow.tasks["greet"].argv == ("echo", "good", "monday", "--dry=true")
        assert peer.ask("FETCHWORKFLOW", "old") == b"OK"
        waiting = {run.workflow_id: run for run in client.call(ListRuns(statuses=[Status.PENDING]))}
        assert waiting["greet"].waits == ""
        said = "only agents of the reference are connected (old); it needs an agent of AgentFlow for "
        assert waiting["careful"].waits == f"{said}timeout, retries (task fetch)"
        assert waiting["gpu.cluster"].waits == f"{said}!Ray (task a)"
        assert waiting["tidy"].waits == (
            f"{said}max_parallel, allow_failure (task fail), env, working_directory (task say), when (task tidy)"
        )


def test_the_status_says_what_a_run_waits_for(
    afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_principal(tmp_path, FILES) as principal, OldPeer(principal.settings) as peer:
        monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
        monkeypatch.setenv("HOME", principal.settings.app_data_directory)
        peer.ask("REGISTERAGENT", "old")
        run_id = afl("fleet", "run", "careful").out.strip()
        said = "only agents of the reference are connected (old); it needs an agent of AgentFlow for timeout, retries"
        assert f"waits: {said} (task fetch)" in afl("fleet", "status", run_id).out
        assert said in " ".join(afl("fleet", "status").out.split())
        assert json.loads(afl("fleet", "status", run_id, "--json").out)["run"]["waits"].startswith(said)
        greeted = afl("fleet", "run", "greet", "--param", "day=monday", "--param", "dry_run=True").out.strip()
        assert "day=monday, dry_run=true" in afl("fleet", "status", greeted).out


def test_without_any_agent_that_is_said(tmp_path: Path) -> None:
    with running_principal(tmp_path, FILES) as principal, Client(principal.settings) as client:
        assert shown(client, started(client, "hello")).run.waits == "no agent is connected"


def test_a_run_that_is_queued_behind_another_says_so(tmp_path: Path) -> None:
    often = """
name: Often
cron: "* * * * * *"
overlap: queue
tasks: {a: {name: A, config: !Subprocess {cmd: "true"}}}
"""
    with running_principal(tmp_path, {"often": often}) as principal, Client(principal.settings) as client:

        def found(status: Status) -> list[RunView]:
            return client.call(ListRuns(workflow_id="often", statuses=[status]))

        held = eventually(lambda: found(Status.WAITING))
        assert held[0].waits == "an earlier run of its workflow is open"
        assert found(Status.PENDING)[0].waits == "no agent is connected"


def test_a_day_of_a_mixed_fleet(tmp_path: Path) -> None:
    """Parameters, retries, a `!Ray` file in the folder, and two restarts of the principal."""
    gate = tmp_path / "gate"
    body = f"until test -e {gate}; do sleep 0.05; done; echo through"
    long = f"name: Long\ntasks: {{wait: {{name: Wait, config: !Subprocess {{cmd: sh, args: [-c, '{body}']}}}}}}\n"
    with (
        running_principal(tmp_path, {**FILES, "long": long}) as principal,
        Client(principal.settings) as client,
        old_agent(principal) as old,
    ):
        careful = started(client, "careful")
        greeted = started(client, "greet", day="monday")
        first = ended(client, greeted)
        assert (first.run.status, first.run.agent_id) == (Status.COMPLETED, old.agent_id)
        eventually(lambda: lines(client, greeted) == ["STDOUT good monday --dry=false"])
        assert ended(client, started(client, "diamond")).run.status is Status.COMPLETED
        assert shown(client, careful).run.status is Status.PENDING

        with running_agent(principal.settings, tmp_path / "ours"):
            found = ended(client, careful)
            assert (found.run.status, found.tasks[0].attempt) == (Status.COMPLETED, 2)

            held = [started(client, "long") for _ in range(12)]  # more than either agent has places for
            eventually(lambda: _running(client) >= 10)
            for _ in range(2):
                principal.kill()
                principal.start()
            assert sorted(old.workflows()) == ["careful", "diamond", "greet", "hello", "long", "tidy"]
            mixed = [started(client, name) for name in ("careful", "diamond", "tidy", "hello") * 3]
            mixed += [started(client, "greet", day=day) for day in ("tuesday", "wednesday")]
            gate.touch()
            ends = [ended(client, run_id) for run_id in [*held, *mixed]]
            assert {end.run.status for end in ends} == {Status.COMPLETED}
            assert len({end.run.agent_id for end in ends}) == 2
            assert all(
                end.run.agent_id != old.agent_id for end in ends if end.run.workflow_id in ("careful", "tidy")
            )
            assert all(end.run.attempt == 1 for end in ends)
            for end in ends[:12]:
                eventually(lambda run_id=end.run.run_id: lines(client, run_id) == ["STDOUT through"])
        assert {workflow.id for workflow in old.ran} <= {"greet", "diamond", "hello", "long"}


def _running(client: Client) -> int:
    return len(client.call(ListRuns(statuses=[Status.RUNNING])))
