"""Agents that are killed at work, and fleets that are told to stop."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import environment
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.fleet_processes import is_gone
from support.fleet_story import ended, lines, shown
from support.principals import PrincipalProcess, running_principal
from support.warm_processes import WarmPopen

from afl.fleet.client import Client
from afl.fleet.messages import Status
from afl.fleet.requests import ListAgents, RunWorkflow
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms

HEARTBEAT_TIMEOUT_MS = 6_000
LOOK_MS = 5_000  # the documented time: the timeout, and one look of the monitor
ROOM_MS = 20_000  # for a machine that has other things to do; the unit tests of the monitor allow none
GATED = """
name: Gated
params: {gate: string}
%s
tasks:
  wait:
    name: Wait
    env: {GATE: "{{ params.gate }}"}
    config: !Subprocess
      cmd: sh
      args: [-c, 'echo $$ >> "$GATE.pids"; until [ -e "$GATE" ]; do sleep 0.05; done; echo through']
  after: {name: After, depends: [wait], config: !Subprocess {cmd: echo, args: [after]}}
"""


@pytest.fixture
def principal(tmp_path: Path) -> Iterator[PrincipalProcess]:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "gated.yml").write_text(GATED % "")
    (tmp_path / "workflows" / "again.yml").write_text(GATED % "on_crash: requeue")
    timeout = str(HEARTBEAT_TIMEOUT_MS)
    with running_principal(tmp_path, CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS=timeout) as principal:
        yield principal


def start(client: Client, workflow_id: str, gate: Path) -> str:
    return client.call(RunWorkflow(workflow_id=workflow_id, params={"gate": str(gate)})).run_id


def running_pids(gate: Path, count: int = 1) -> list[int]:
    """The processes of a task's attempts, once there are so many."""
    file = gate.with_name(f"{gate.name}.pids")

    def found() -> list[int]:
        pids = [int(pid) for pid in file.read_text().split()] if file.exists() else []
        return pids if len(pids) >= count else []

    return eventually(found)


def test_a_killed_agent_is_noticed_in_time_and_its_run_done_elsewhere_if_its_policy_says_so(
    principal: PrincipalProcess, tmp_path: Path
) -> None:
    with Client(principal.settings) as client:
        with running_agent(principal.settings, tmp_path / "first") as agent:
            lost, again = start(client, "gated", tmp_path / "a"), start(client, "again", tmp_path / "b")
            pids = running_pids(tmp_path / "a") + running_pids(tmp_path / "b")
            eventually(
                lambda: all(shown(client, each).run.status is Status.RUNNING for each in (lost, again))
            )
            [first] = [view.agent_id for view in client.call(ListAgents())]
            killed_at = wall_ms()
            agent.kill()
        eventually(lambda: all(map(is_gone, pids)))  # the reaper ends what a vanished agent ran
        with running_agent(principal.settings, tmp_path / "second"):
            crashed = ended(client, lost)
            running_pids(tmp_path / "b", 2)
            (tmp_path / "b").touch()
            completed = ended(client, again)
        assert (crashed.run.status, crashed.run.agent_id) == (Status.CRASHED, first)
        assert crashed.run.error == f"agent {first} was lost"
        assert {task.task_id: task.status for task in crashed.tasks}["wait"] is Status.CRASHED
        assert crashed.run.ended_at is not None
        assert crashed.run.ended_at - killed_at <= HEARTBEAT_TIMEOUT_MS + LOOK_MS + ROOM_MS
        assert (completed.run.status, completed.run.attempt) == (Status.COMPLETED, 2)
        assert completed.run.agent_id != first
        assert [task.status for task in completed.tasks] == [Status.COMPLETED] * 2
        assert lines(client, again) == ["STDOUT through", "STDOUT after"]


def test_an_agent_that_is_told_to_stop_finishes_what_it_runs_and_takes_nothing_new(
    principal: PrincipalProcess, tmp_path: Path
) -> None:
    with (
        Client(principal.settings) as client,
        running_agent(principal.settings, tmp_path / "agent") as agent,
    ):
        run_id = start(client, "gated", tmp_path / "gate")
        running_pids(tmp_path / "gate")
        agent.process.send_signal(signal.SIGTERM)
        eventually(lambda: "draining: 1 runs are finished first" in agent.log)
        # What the request that was under way had been given until here is the agent's; from here on it takes nothing.
        eventually(lambda: "draining: no more runs are fetched" in agent.log)
        late = start(client, "gated", tmp_path / "gate")
        (tmp_path / "gate").touch()
        assert agent.process.wait() == 0, agent.log
        assert shown(client, run_id).run.status is Status.COMPLETED
        assert lines(client, run_id) == ["STDOUT through", "STDOUT after"]
        assert shown(client, late).run.status is Status.PENDING


def settings_of(process: subprocess.Popen[str], folder: Path) -> FleetSettings:
    assert process.stdout is not None
    found = re.search(r"tcp://127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found is not None
    return replace(FleetSettings(), principal_port=int(found[1]), app_data_directory=str(folder))


def test_a_principal_with_an_agent_ends_after_what_it_runs(tmp_path: Path) -> None:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "gated.yml").write_text(GATED % "")
    zero = {"CDKTR_LOGS_LISTENING_PORT": "0", "CDKTR_LOGS_PUBLISHING_PORT": "0"}
    process = WarmPopen(
        ["-m", "afl", "fleet", "principal", "--with-agent", "--port", "0"],
        cwd=tmp_path,
        env=environment(HOME=str(tmp_path), **zero),
        stdout=subprocess.PIPE,
    )
    try:
        with Client(settings_of(process, tmp_path)) as client:
            run_id = start(client, "gated", tmp_path / "gate")
            running_pids(tmp_path / "gate")
            process.send_signal(signal.SIGTERM)
            (tmp_path / "gate").touch()
            assert process.wait() == 0
        again = PrincipalProcess(tmp_path)
        again.settings = replace(again.settings, db_path=str(tmp_path / ".cdktr" / "app.db"))
        again.start()
        try:
            with Client(again.settings) as client:
                assert shown(client, run_id).run.status is Status.COMPLETED
                assert lines(client, run_id) == ["STDOUT through", "STDOUT after"]
        finally:
            again.close()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_principal_that_was_suspended_throws_no_work_away(tmp_path: Path) -> None:
    timeout_ms, gate = 1_500, tmp_path / "gate"
    with (
        running_principal(
            tmp_path,
            {"again": GATED % "on_crash: requeue"},
            CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS=str(timeout_ms),
        ) as principal,
        running_agent(principal.settings, tmp_path / "agent"),
        Client(principal.settings) as client,
    ):
        run_id = start(client, "again", gate)
        running_pids(gate)
        eventually(lambda: shown(client, run_id).run.status is Status.RUNNING)
        principal.suspend()
        woken_at = wall_ms() + 2 * timeout_ms
        eventually(lambda: wall_ms() > woken_at)
        principal.wake()
        eventually(lambda: wall_ms() > woken_at + timeout_ms)  # a live agent is heard by then
        gate.touch()
        found = ended(client, run_id)
        assert (found.run.status, found.run.attempt) == (Status.COMPLETED, 1)
        assert len(gate.with_name("gate.pids").read_text().split()) == 1
