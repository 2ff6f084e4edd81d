"""Following a run: through an outage of the principal, and until somebody has seen enough."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.command_line import environment
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.fleet_story import shown
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import Client
from afl.fleet.errors import PrincipalAway, RequestRefused
from afl.fleet.messages import Status
from afl.fleet.requests import RunWorkflow
from afl.fleet.settings import FleetSettings
from afl.operations.fleet.fleet import LogFilter, LogQuery
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import Away, News, follow_logs, follow_run

GATED = """
name: Gated
tasks:
  wait:
    name: Wait
    config: !Subprocess
      cmd: sh
      args: [-c, 'seq 1500; until [ -e ../gate ]; do sleep 0.05; done; seq 1501 3000']
"""


@pytest.fixture
def principal(tmp_path: Path) -> Iterator[PrincipalProcess]:
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "gated.yml").write_text(GATED)
    with running_principal(tmp_path) as principal, running_agent(principal.settings, tmp_path / "agent"):
        principal.settings = replace(principal.settings, default_zmq_timeout_ms=200)
        yield principal


def started(principal: PrincipalProcess) -> str:
    with Client(principal.settings) as client:
        return client.call(RunWorkflow(workflow_id="gated"), retry=True).run_id


def payloads(news: list[News]) -> list[str]:
    return [line.payload for each in news if isinstance(each, list) for line in each]


def test_every_line_is_told_once_and_the_end_last_whatever_happens_to_the_principal(
    principal: PrincipalProcess, tmp_path: Path
) -> None:
    run_id = started(principal)

    async def follow() -> list[News]:
        told: list[News] = []
        killed = False
        async for news in follow_run(principal.settings, run_id):
            told.append(news)
            if isinstance(news, Away) and killed:
                killed = False
                await asyncio.to_thread(principal.start)
            elif len(payloads(told)) == 1500 and not (tmp_path / "gate").exists():
                await asyncio.to_thread(principal.kill)
                killed = True
                (tmp_path / "gate").touch()
        return told

    told = asyncio.run(follow())
    assert payloads(told) == [f"STDOUT {number}" for number in range(1, 3001)]
    assert any(isinstance(news, Away) for news in told)
    end = told[-1]
    assert isinstance(end, RunStanding) and end.run.status is Status.COMPLETED
    assert [task.status for task in end.tasks] == [Status.COMPLETED]


def test_only_the_last_lines_of_what_is_there(principal: PrincipalProcess, tmp_path: Path) -> None:
    (tmp_path / "gate").touch()
    run_id = started(principal)
    with Client(principal.settings) as client:
        eventually(lambda: shown(client, run_id).run.status is Status.COMPLETED)

    async def follow() -> list[News]:
        return [news async for news in follow_run(principal.settings, run_id, last=5)]

    assert payloads(asyncio.run(follow())) == [f"STDOUT {number}" for number in range(2996, 3001)]


def test_who_follows_is_told_what_cannot_be_followed(principal: PrincipalProcess) -> None:
    async def follow(run_id: str, attempts: int = 20) -> None:
        settings = replace(principal.settings, retry_attempts=attempts, default_zmq_timeout_ms=50)
        async for _ in follow_run(settings, run_id):
            pass

    with pytest.raises(RequestRefused, match="No run exists with id nothing"):
        asyncio.run(follow("nothing"))
    run_id = started(principal)
    principal.kill()
    with pytest.raises(PrincipalAway, match="does not answer"):
        asyncio.run(follow(run_id, attempts=2))


def test_who_tails_lines_is_told_once_that_the_principal_is_away() -> None:
    settings = FleetSettings(principal_port=1, retry_attempts=3, default_zmq_timeout_ms=20)
    told: list[str] = []

    async def tail() -> None:
        query = LogQuery()
        async for _ in follow_logs(settings, query, LogFilter(query), away=lambda: told.append("away")):
            pass

    with pytest.raises(PrincipalAway):
        asyncio.run(tail())
    assert told == ["away"]


def test_an_interrupt_leaves_and_the_run_goes_on(principal: PrincipalProcess, tmp_path: Path) -> None:
    following = subprocess.Popen(
        [sys.executable, "-m", "afl", "fleet", "run", "gated", "--follow"],
        cwd=tmp_path,
        env=environment(CDKTR_PRINCIPAL_PORT=str(principal.settings.principal_port), HOME=str(tmp_path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert following.stdout is not None
    following.stdout.readline()
    following.send_signal(signal.SIGINT)
    _, said = following.communicate()
    assert following.returncode == 130
    run_id = said.split("run ", 1)[1].split()[0]
    assert f"`afl fleet cancel {run_id}`" in said
    with Client(principal.settings) as client:
        assert shown(client, run_id).run.status is Status.RUNNING
        (tmp_path / "gate").touch()
        eventually(lambda: shown(client, run_id).run.status is Status.COMPLETED)
