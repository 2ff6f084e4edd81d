"""A principal that is killed while lines and statuses pour in: each is stored once, whatever was under way."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.fleet_story import ended, lines
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import Client
from afl.fleet.messages import Status
from afl.fleet.requests import RunWorkflow
from afl.kernel.database import Query, connect

DEATHS = 3
# Never silent until it is told to stop, so that whenever the principal dies there is something on its way.
TALK = """
import pathlib, sys, time
stop, number = pathlib.Path(sys.argv[1]), 0
while not stop.exists():
    for number in range(number, number + 20):
        print(number)
    number += 1
    sys.stdout.flush()
    time.sleep(0.01)
print("total", number)
"""
SHORT = """
name: Short
tasks:
  one: {name: One, config: !Subprocess {cmd: echo, args: [one]}}
  two: {name: Two, depends: [one], config: !Subprocess {cmd: echo, args: [two]}}
"""


def write_workflows(principal: PrincipalProcess, stop: Path) -> None:
    script = stop.with_name("talk.py")
    script.write_text(TALK)
    body = {"cmd": sys.executable, "args": ["-S", "-E", str(script), str(stop)]}
    shown = yaml.safe_dump(body, default_flow_style=True)
    principal.write_workflow(
        "talk", f"name: Talk\ntasks: {{talk: {{name: T, config: !Subprocess {shown}}}}}\n"
    )
    principal.write_workflow("short", SHORT)


def run(client: Client, workflow_id: str, run_id: str) -> str:
    """Asked for again while the principal is away: the same id is the same run."""
    return client.call(RunWorkflow(workflow_id=workflow_id, run_id=run_id), retry=True).run_id


# Statuses of agents that are in the history more than once; a run is PENDING with the principal first.
DOUBLED = Query.of("""
    select run_id, status, '' as task_id from workflow_run_status where status <> 'PENDING'
    group by run_id, status having count(*) > 1
    union all select run_id, status, task_id from task_run_status
    group by run_id, status, task_id having count(*) > 1""")


def doubled(url: str) -> list[tuple[str, ...]]:
    with connect(url) as database:
        return [
            tuple(row[name] for name in ("run_id", "status", "task_id")) for row in database.select(DOUBLED)
        ]


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_deaths_in_the_middle_of_traffic_lose_and_double_nothing(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    stop = tmp_path / "stop"
    url = f"sqlite:///{tmp_path}/p.db" if store == "sqlite" else request.getfixturevalue("postgres_database")
    with ExitStack() as stack:
        principal = stack.enter_context(running_principal(tmp_path, CDKTR_DB_PATH=url))
        write_workflows(principal, stop)
        for number in range(3):
            stack.enter_context(running_agent(principal.settings, tmp_path / f"agent{number}"))
        client = stack.enter_context(Client(principal.settings))
        talks = [run(client, "talk", f"talk{number}") for number in range(3)]
        shorts: list[str] = []
        for death in range(DEATHS):
            had = [len(lines(client, talk)) for talk in talks]
            eventually(
                lambda had=had: all(
                    len(lines(client, talk)) > some for talk, some in zip(talks, had, strict=True)
                )
            )
            shorts += [run(client, "short", f"short{death}-{number}") for number in range(4)]
            principal.kill()
            principal.start()
        stop.touch()
        for talk in talks:
            assert ended(client, talk).run.status is Status.COMPLETED
            *numbers, total = lines(client, talk)
            assert total == f"STDOUT total {len(numbers)}"
            assert numbers == [f"STDOUT {number}" for number in range(len(numbers))]
        for short in shorts:
            detail = ended(client, short)
            assert [task.status for task in detail.tasks] == [Status.COMPLETED] * 2
            assert (detail.run.status, detail.run.attempt) == (Status.COMPLETED, 1)
            assert lines(client, short) == ["STDOUT one", "STDOUT two"]
        assert doubled(url) == []
