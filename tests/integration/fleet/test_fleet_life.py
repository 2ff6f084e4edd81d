"""The steps of an agent's life that the document numbers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from support.eventually import eventually
from support.fleet_agents import running_agent
from support.fleet_principal import FakePrincipal
from support.fleet_records import command, fetched, shell, workflow
from support.principals import running_principal

from afl.fleet.agent import Agent
from afl.fleet.client import Client
from afl.fleet.requests import GetRegisteredAgents, ListAgents, RunWorkflow
from afl.fleet.settings import FleetSettings

SETTINGS = FleetSettings(agent_max_concurrency=1, retry_attempts=3, default_zmq_timeout_ms=10)


def test_a_heartbeat_comes_every_five_seconds(tmp_path: Path) -> None:
    """The principal may keep a heartbeat for five seconds, and the next one follows its answer at once."""

    async def living() -> FakePrincipal:
        principal = FakePrincipal()
        agent = Agent(SETTINGS, folder=tmp_path, client=principal)
        running = asyncio.create_task(agent.run(signals=False))
        await principal.until(lambda: len(principal.beats) >= 3)
        agent.drain()
        await running
        return principal

    assert {beat.wait_ms for beat in asyncio.run(living()).beats} == {5_000}


def test_the_place_of_a_run_that_ended_is_free_again(tmp_path: Path) -> None:
    async def living() -> FakePrincipal:
        principal = FakePrincipal()
        agent = Agent(SETTINGS, folder=tmp_path, client=principal)
        running = asyncio.create_task(agent.run(signals=False))
        flows = [workflow(a=command("true")), workflow(a=shell("exit 3")), workflow(a=command("/no/program"))]
        for number, flow in enumerate([*flows, flows[0]]):
            principal.runs.put_nowait(fetched(flow, run_id=f"run{number}"))
        await principal.until(lambda: principal.ended("run3"))
        agent.drain()
        await running
        return principal

    principal = asyncio.run(living())
    assert [principal.status(f"run{number}").value for number in range(4)] == [
        "COMPLETED",
        "FAILED",
        "FAILED",
        "COMPLETED",
    ]


def test_more_agents_register_by_themselves_and_share_the_work(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = f"until [ -e {gate} ]; do sleep 0.02; done"
    with running_principal(tmp_path) as principal, Client(principal.settings) as client:
        principal.write_workflow(
            "gated",
            f"name: G\ntasks: {{a: {{name: A, config: !Subprocess {{cmd: sh, args: [-c, '{body}']}}}}}}\n",
        )
        one = {"CDKTR_AGENT_MAX_CONCURRENCY": "1"}
        with (
            running_agent(principal.settings, tmp_path / "a", **one) as first,
            running_agent(principal.settings, tmp_path / "b", **one) as second,
        ):
            eventually(lambda: len(client.call(ListAgents())) == 2)
            for _ in range(2):
                client.call(RunWorkflow(workflow_id="gated"))
            eventually(lambda: [each.running_tasks for each in client.call(GetRegisteredAgents())] == [1, 1])
            gate.touch()
            assert (first.drain(), second.drain()) == (0, 0)
