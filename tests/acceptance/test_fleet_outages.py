"""A principal that dies again and again, agents that give up: every line is stored once, every status is true."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from support.eventually import eventually
from support.fleet_agents import AgentProcess, running_agent
from support.fleet_story import LINES, PHASES, ended, lines, marked, numbered_workflow, shown
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import Client
from afl.fleet.messages import Status
from afl.fleet.requests import RunWorkflow

RUNS = 30
FAILING = range(0, RUNS, 7)
EXPECTED = [f"STDOUT {number}" for number in range(LINES)]


@pytest.fixture
def gates(tmp_path: Path) -> Path:
    return tmp_path / "gates"


@pytest.fixture
def principal(tmp_path: Path, gates: Path) -> Iterator[PrincipalProcess]:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "numbered.yml").write_text(numbered_workflow(gates))
    with running_principal(tmp_path) as principal:
        yield principal


def start(client: Client, number: int, code: int = 0) -> str:
    params = {"name": f"{number:02}", "code": code}
    return client.call(RunWorkflow(workflow_id="numbered", params=params)).run_id


def all_ready(gates: Path, phase: int, runs: int) -> None:
    eventually(lambda: marked(gates, "ready", phase) == runs, lambda: marked(gates, "ready", phase))


def more_than(client: Client, run_id: str, count: int) -> None:
    eventually(lambda: len(lines(client, run_id)) > count)


def open_gate(gates: Path, phase: int, runs: int) -> None:
    """Let the runs go on, and wait until each has written lines."""
    (gates / f"open-{phase}").touch()
    eventually(lambda: marked(gates, "wrote", phase) == runs)


def test_five_deaths_of_the_principal_lose_no_line_and_no_status(
    principal: PrincipalProcess, gates: Path, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        agents: list[AgentProcess] = [
            stack.enter_context(
                running_agent(
                    principal.settings, tmp_path / f"agent{number}", CDKTR_AGENT_MAX_CONCURRENCY="10"
                )
            )
            for number in range(3)
        ]
        client = stack.enter_context(Client(principal.settings))
        runs = [start(client, number, 3 if number in FAILING else 0) for number in range(RUNS)]
        for phase in range(PHASES):
            all_ready(gates, phase, RUNS)
            # The lines of the outage before have begun to arrive: this is another one, not the same.
            more_than(client, runs[phase], 200 * phase)
            principal.kill()
            assert marked(gates, "wrote", phase) == 0
            open_gate(gates, phase, RUNS)  # fifty lines of every run, while nobody listens
            principal.start()
        for number, run_id in enumerate(runs):
            detail = ended(client, run_id)
            [task] = detail.tasks
            expected = (Status.FAILED, 3) if number in FAILING else (Status.COMPLETED, 0)
            assert (detail.run.status, task.exit_code) == expected
            assert task.status is detail.run.status
            assert lines(client, run_id) == EXPECTED
        assert len({shown(client, run_id).run.agent_id for run_id in runs}) == 3
        assert [agent.drain() for agent in agents] == [0, 0, 0], agents[0].log


def test_what_an_agent_that_gave_up_left_is_delivered_by_the_next_on_its_folder(
    principal: PrincipalProcess, gates: Path, tmp_path: Path
) -> None:
    impatient = {"CDKTR_RETRY_ATTEMPTS": "2", "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS": "100"}
    with Client(principal.settings) as client:
        with running_agent(principal.settings, tmp_path / "agent", **impatient) as agent:
            runs = [start(client, number, code) for number, code in enumerate((0, 3, 0))]
            all_ready(gates, 0, len(runs))
            eventually(lambda: {shown(client, run_id).run.status for run_id in runs} == {Status.RUNNING})
            principal.kill()
            for phase in range(PHASES):
                open_gate(gates, phase, len(runs))
            assert agent.process.wait() == 1, agent.log
        principal.start()
        assert all(len(lines(client, run_id)) < LINES for run_id in runs)
        assert [shown(client, run_id).run.status for run_id in runs] == [Status.RUNNING] * len(runs)
        with running_agent(principal.settings, tmp_path / "agent") as successor:
            statuses = [ended(client, run_id).run.status for run_id in runs]
            assert statuses == [Status.COMPLETED, Status.FAILED, Status.COMPLETED]
            assert [lines(client, run_id) == EXPECTED for run_id in runs] == [True] * len(runs)
            assert successor.drain() == 0, successor.log


# Waits for its gate, then prints far more than the spool has room for.
CHATTY = """
import pathlib, sys, time
gate = pathlib.Path(sys.argv[1])
print("begun", flush=True)
while not gate.exists():
    time.sleep(0.02)
for number in range(4000):
    print(number, "x" * 500)
"""


def test_a_full_spool_disk_holds_up_an_agent_and_loses_nothing(tmp_path: Path) -> None:
    """The disk is a limit of the agent's files, which is lifted while it waits: the principal is away meanwhile."""
    gate, script = tmp_path / "gate", tmp_path / "chatty.py"
    script.write_text(CHATTY)
    command = {"cmd": sys.executable, "args": ["-S", "-E", str(script), str(gate)]}
    body = yaml.safe_dump(command, default_flow_style=True)
    chatty = f"name: Chatty\ntasks: {{a: {{name: A, config: !Subprocess {body}}}}}\n"
    with (
        running_principal(tmp_path, {"chatty": chatty}) as principal,
        running_agent(principal.settings, tmp_path / "agent") as agent,
        Client(principal.settings) as client,
    ):
        run_id = client.call(RunWorkflow(workflow_id="chatty")).run_id
        eventually(lambda: lines(client, run_id))
        principal.kill()
        spool = tmp_path / "agent" / "agent"
        room = max(file.stat().st_size for file in spool.glob("spool.db*")) + 100_000
        resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
        gate.touch()
        eventually(lambda: "cannot be written" in agent.log, lambda: agent.log)
        assert agent.process.poll() is None
        resource.prlimit(
            agent.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
        principal.start()
        assert ended(client, run_id).run.status is Status.COMPLETED
        found = [line.removeprefix("STDOUT ") for line in lines(client, run_id)]
        assert found == ["begun", *(f"{number} {'x' * 500}" for number in range(4000))]
        assert "Traceback" not in agent.log and "are lost" not in agent.log
        assert agent.drain() == 0
