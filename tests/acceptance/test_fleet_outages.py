"""A principal that dies again and again, agents that give up: every line is stored once, every status is true."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.eventually import eventually
from support.fleet_agents import AgentProcess, running_agent
from support.fleet_story import LINES, PHASES, ended, lines, marked, numbered_workflow, shown
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import Client
from afl.fleet.requests import RunWorkflow
from afl.fleet.statuses import Status

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
