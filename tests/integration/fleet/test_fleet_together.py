"""A real principal and real agents: every line once, every run with its true end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import Client
from afl.fleet.errors import PrincipalAway
from afl.fleet.messages import RunDetail, Status
from afl.fleet.requests import CancelRun, GetLogs, GetRun, ListAgents, RunWorkflow, WatchRun

DIAMOND = """
name: Diamond
params: {word: string}
tasks:
  top: {name: Top, config: !Subprocess {cmd: echo, args: ["top {{ params.word }}"]}}
  left: {name: Left, depends: [top], config: !Subprocess {cmd: sh, args: [-c, "echo left >&2"]}}
  right: {name: Right, depends: [top], config: !Subprocess {cmd: "false"}}
  bottom: {name: Bottom, depends: [left, right], config: !Subprocess {cmd: echo, args: [never]}}
"""
COUNTING = """
name: Counting
tasks:
  count:
    name: Count
    config: !Subprocess {cmd: sh, args: [-c, "for i in $(seq 200); do echo $i; sleep 0.01; done"]}
"""
SLOW = "name: Slow\ntasks: {a: {name: A, config: !Subprocess {cmd: sleep, args: ['600']}}}\n"
AGAIN = """
name: Again
on_crash: requeue
tasks:
  a:
    name: A
    config: !Subprocess {cmd: sh, args: [-c, "[ -e ../again ] && exit 0; touch ../again; exec sleep 600"]}
"""


@pytest.fixture
def principal(tmp_path: Path) -> Iterator[PrincipalProcess]:
    for name, text in (("diamond", DIAMOND), ("counting", COUNTING), ("slow", SLOW), ("again", AGAIN)):
        (tmp_path / "workflows").mkdir(exist_ok=True)
        (tmp_path / "workflows" / f"{name}.yml").write_text(text)
    with running_principal(tmp_path, CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS="6000") as principal:
        yield principal


def ended(client: Client, run_id: str) -> RunDetail:
    """The run once it has ended."""
    detail = client.call(GetRun(run_id))
    while not detail.run.status.is_final:
        try:
            detail = client.call(WatchRun(run_id, detail.run.version, 5_000))
        except PrincipalAway:
            continue
    return detail


def lines(client: Client, run_id: str) -> list[str]:
    found: list[str] = []
    page = client.call(GetLogs(run_id=run_id, limit=5_000))
    while page.lines:
        found += [line.payload for line in page.lines]
        page = client.call(GetLogs(run_id=run_id, limit=5_000, after=page.position))
    return found


def more_than(client: Client, run_id: str, count: int) -> None:
    """Wait until more lines have arrived, or no more will."""
    final = Status.COMPLETED
    eventually(lambda: len(lines(client, run_id)) > count or client.call(GetRun(run_id)).run.status is final)


def test_a_run_from_its_trigger_to_its_end(principal: PrincipalProcess, tmp_path: Path) -> None:
    with running_agent(principal.settings, tmp_path / "agent") as agent, Client(principal.settings) as client:
        started = client.call(RunWorkflow(workflow_id="diamond", params={"word": "$(id) 'x'"}))
        detail = ended(client, started.run_id)
        assert detail.run.status is Status.FAILED and detail.run.error == "right: exit code 1"
        assert {task.task_id: (task.status, task.exit_code) for task in detail.tasks} == {
            "top": (Status.COMPLETED, 0),
            "left": (Status.COMPLETED, 0),
            "right": (Status.FAILED, 1),
            "bottom": (Status.SKIPPED, None),
        }
        assert lines(client, started.run_id) == ["STDOUT top $(id) 'x'", "STDERR left"]
        assert agent.drain() == 0, agent.log


def test_a_run_is_canceled_on_its_agent(principal: PrincipalProcess, tmp_path: Path) -> None:
    with running_agent(principal.settings, tmp_path / "agent"), Client(principal.settings) as client:
        run_id = client.call(RunWorkflow(workflow_id="slow")).run_id
        eventually(lambda: client.call(GetRun(run_id)).run.status is Status.RUNNING)
        client.call(CancelRun(run_id, "not needed"))
        detail = ended(client, run_id)
        assert (detail.run.status, detail.run.cancel_reason) == (Status.CANCELED, "not needed")
        assert [task.status for task in detail.tasks] == [Status.CANCELED]


def test_lines_of_an_outage_arrive_once_and_in_order(principal: PrincipalProcess, tmp_path: Path) -> None:
    with running_agent(principal.settings, tmp_path / "agent"), Client(principal.settings) as client:
        run_id = client.call(RunWorkflow(workflow_id="counting")).run_id
        for _ in range(2):
            had = len(eventually(lambda: lines(client, run_id)))
            principal.kill()
            principal.start()
            more_than(client, run_id, had)
        assert ended(client, run_id).run.status is Status.COMPLETED
        assert lines(client, run_id) == [f"STDOUT {number}" for number in range(1, 201)]


def test_a_spool_that_was_left_is_delivered_by_the_next_agent(
    principal: PrincipalProcess, tmp_path: Path
) -> None:
    with Client(principal.settings) as client:
        with running_agent(principal.settings, tmp_path / "agent", CDKTR_RETRY_ATTEMPTS="1") as agent:
            run_id = client.call(RunWorkflow(workflow_id="counting")).run_id
            eventually(lambda: lines(client, run_id))
            principal.kill()
            assert agent.process.wait() == 1
        principal.start()
        assert len(lines(client, run_id)) < 200
        with running_agent(principal.settings, tmp_path / "agent"):
            assert ended(client, run_id).run.status is Status.COMPLETED
            assert lines(client, run_id) == [f"STDOUT {number}" for number in range(1, 201)]


def test_the_run_of_a_killed_agent_completes_on_another(principal: PrincipalProcess, tmp_path: Path) -> None:
    with Client(principal.settings) as client:
        with running_agent(principal.settings, tmp_path / "agent") as agent:
            run_id = client.call(RunWorkflow(workflow_id="again")).run_id
            eventually(lambda: (tmp_path / "again").exists())
            eventually(lambda: client.call(GetRun(run_id)).run.status is Status.RUNNING)
            agent.kill()
        with running_agent(principal.settings, tmp_path / "other"):
            detail = ended(client, run_id)
            assert (detail.run.status, detail.run.attempt) == (Status.COMPLETED, 2)
            assert len(client.call(ListAgents())) >= 1
