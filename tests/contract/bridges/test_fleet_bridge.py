"""Steps `with Fleet(...)`: one run per task, parameters in and outputs back, failures with their reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.crossings import Crossing
from support.eventually import eventually
from support.fleet_agents import AgentProcess
from support.old_peer import OldPeer
from support.principals import PrincipalProcess

from afl.bridges.fleet import FleetBridge
from afl.bridges.service import BridgeService
from afl.fleet.client import Client
from afl.fleet.messages import RunView, Status
from afl.fleet.requests import CancelRun, GetRun, ListRuns
from afl.operations.run.control import cancel
from afl.runtime.sqlite_store import SqliteStore

SUM = """
name: Sum
params:
  a: {type: integer}
  names: {type: string}
  greeting: {type: string, default: hi}
tasks:
  first: {name: First, config: !Subprocess {cmd: echo, args: ['{"sum": 1, "left": "here"}']}}
  second:
    name: Second
    depends: [first]
    config: !Subprocess {cmd: sh, args: [-c, 'echo "some words"; echo "{\\"sum\\": $((A + 1)), \\"names\\": $NAMES}"']}
    env: {A: "{{ params.a }}", NAMES: "{{ params.names }}"}
"""
BROKEN = """
name: Broken
tasks:
  load: {name: Load, config: !Subprocess {cmd: sh, args: [-c, 'echo reading; echo no such table >&2; exit 3']}}
  after: {name: After, depends: [load], config: !Subprocess {cmd: echo, args: [never]}}
"""
LARGE = """
name: Large
tasks:
  print:
    name: Print
    config: !Subprocess
      cmd: sh
      args: [-c, "printf '{\\"text\\": \\"'; yes x | head -300000 | tr -d '\\n'; printf '\\"}'"]
"""
TOLERANT = """
name: Tolerant
tasks:
  check:
    name: Check
    config: !Subprocess {cmd: sh, args: [-c, 'echo no cache; exit 4']}
    allow_failure: true
  load: {name: Load, depends: [check], config: !Subprocess {cmd: sh, args: [-c, 'echo no such table; exit 3']}}
"""
TALKATIVE = """
name: Talkative
tasks:
  sum: {name: Sum, config: !Subprocess {cmd: sh, args: [-c, 'echo "{\\"sum\\": 3}"; seq 200 >&2']}}
"""
HALF_BROKEN = """
name: Half broken
tasks:
  load: {name: Load, config: !Subprocess {cmd: sh, args: [-c, 'exit 3']}}
  wait: {name: Wait, config: !Subprocess {cmd: sleep, args: ['600']}}
"""
SLOW = "name: Slow\ntasks:\n  a: {name: A, config: !Subprocess {cmd: sleep, args: ['600']}}\n"
FACET = """
event facet Work(GIVEN) => (RETURNS) with Fleet("NAME") POLICY
workflow W() => (RETURNS) andThen {
    done = Work(VALUES)
    yield W(YIELDS)
}
"""


def source(name: str, returns: str = "", given: str = "", values: str = "", policy: str = "") -> str:
    names = [each.partition(":")[0].strip() for each in returns.split(", ") if each]
    text = FACET.replace("NAME", name).replace("POLICY", policy)
    text = text.replace("GIVEN", given).replace("VALUES", values).replace("RETURNS", returns)
    return text.replace("YIELDS", ", ".join(f"{each} = done.{each}" for each in names))


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    folder = tmp_path_factory.mktemp("fleet")
    principal = PrincipalProcess(folder)
    files = {"sum": SUM, "broken": BROKEN, "tolerant": TOLERANT, "half_broken": HALF_BROKEN}
    for name, text in {**files, "talkative": TALKATIVE, "large": LARGE, "slow": SLOW}.items():
        principal.write_workflow(name, text)
    principal.start()
    agent = AgentProcess(principal.settings, folder / "agent")
    try:
        yield principal
    finally:
        agent.kill()
        principal.close()


@pytest.fixture
def crossing(tmp_path: Path) -> Iterator[Crossing]:
    """The store makes no difference to the fleet."""
    url = f"sqlite:///{tmp_path}/fleet.db"
    store = SqliteStore(url)
    with Crossing(store, url) as crossing:
        yield crossing
    store.close()


def host(crossing: Crossing, principal: PrincipalProcess) -> BridgeService:
    settings = replace(principal.settings, default_zmq_timeout_ms=500)
    return crossing.host(fleet=lambda host: FleetBridge(host, settings))


def fleet_runs(principal: PrincipalProcess) -> dict[str, RunView]:
    with Client(principal.settings) as client:
        return {run.run_id: run for run in client.call(ListRuns(limit=1000))}


def test_parameters_go_in_and_outputs_come_back(crossing: Crossing, principal: PrincipalProcess) -> None:
    returns = "sum: Long, names: [String], left: String, exit_code: Long, status: String, run_id: String"
    asked = source("sum", returns, "a: Long, names: [String]", 'a = 41, names = ["x", "y"]')
    report = crossing.run(asked, bridges=host(crossing, principal))
    task = crossing.task(report.run)
    assert report.outputs == {
        "sum": 42,
        "names": ["x", "y"],
        "left": "here",
        "exit_code": 0,
        "status": "COMPLETED",
        "run_id": task.uuid,
    }
    assert fleet_runs(principal)[task.uuid].params["greeting"] == "hi"


def test_an_output_of_any_length_comes_back(crossing: Crossing, principal: PrincipalProcess) -> None:
    report = crossing.run(source("large", "text: String"), bridges=host(crossing, principal))
    assert report.outputs == {"text": "x" * 300_000}


def test_an_output_comes_back_whatever_follows_it_on_standard_error(
    crossing: Crossing, principal: PrincipalProcess
) -> None:
    report = crossing.run(source("talkative", "sum: Long"), bridges=host(crossing, principal))
    assert (report.error, report.outputs) == (None, {"sum": 3})


def test_an_output_that_is_missing_or_does_not_fit_fails_the_step(
    crossing: Crossing, principal: PrincipalProcess
) -> None:
    bridges = host(crossing, principal)
    given, values = "a: Long, names: String", 'a = 1, names = "1"'
    missing = crossing.run(source("sum", "total: Long", given, values), bridges=bridges)
    assert missing.error is not None and "the result lacks total" in missing.error.message
    wrong = crossing.run(source("sum", "left: Long", given, values), bridges=bridges)
    assert wrong.error is not None and "expected Long" in wrong.error.message


def test_a_failed_run_fails_the_step_with_its_task_and_last_lines(
    crossing: Crossing, principal: PrincipalProcess
) -> None:
    report = crossing.run(source("broken"), bridges=host(crossing, principal))
    assert report.error is not None and report.error.error_type == "FleetFailed"
    assert "task load: exit code 3" in report.error.message
    assert "no such table" in report.error.message


def test_a_failure_that_is_allowed_is_not_the_reason(crossing: Crossing, principal: PrincipalProcess) -> None:
    report = crossing.run(source("tolerant"), bridges=host(crossing, principal))
    assert report.error is not None and "task load: exit code 3" in report.error.message
    assert "no such table" in report.error.message


@pytest.mark.parametrize(
    ("name", "given", "values", "why"),
    [
        ("nothing.here", "", "", "No workflow exists"),
        ("sum", "a: String", 'a = "many"', "whole number"),
        ("sum", "b: Long", "b = 1", "no parameter 'b'"),
    ],
)
def test_what_the_fleet_refuses_fails_the_step(
    crossing: Crossing, principal: PrincipalProcess, name: str, given: str, values: str, why: str
) -> None:
    report = crossing.run(source(name, "", given, values), bridges=host(crossing, principal))
    assert report.error is not None and report.error.error_type == "FleetRefused"
    assert why in report.error.message


def test_cancel_and_timeout_end_the_run(crossing: Crossing, principal: PrincipalProcess) -> None:
    bridges = host(crossing, principal)
    canceled = crossing.submit(source("slow"))
    task = crossing.task(canceled)
    eventually(lambda: _status(principal, task.uuid) is Status.RUNNING)
    cancel(crossing.store, canceled)
    eventually(lambda: _status(principal, task.uuid) is Status.CANCELED)
    eventually(lambda: crossing.is_told(canceled))
    late = crossing.run(source("slow", policy="with Timeout(ms = 300)"), bridges=bridges)
    assert late.error is not None and late.error.error_type == "Timeout"
    eventually(lambda: _status(principal, crossing.task(late.run).uuid) is Status.CANCELED)


def _status(principal: PrincipalProcess, run_id: str) -> Status | None:
    run = fleet_runs(principal).get(run_id)
    return run.status if run is not None else None


def test_somebody_who_cancels_the_run_fails_the_step(crossing: Crossing, principal: PrincipalProcess) -> None:
    host(crossing, principal)
    run = crossing.submit(source("slow"))
    task = crossing.task(run)
    eventually(lambda: _status(principal, task.uuid) is Status.RUNNING)
    with Client(principal.settings) as client:
        client.call(CancelRun(task.uuid, "the disk is full"))
    crossing.until(run, "failed")
    error = crossing.task(run).error
    assert error is not None and error["type"] == "FleetCanceled" and "the disk is full" in error["message"]


def test_a_cancel_is_the_reason_even_if_a_task_had_failed(
    crossing: Crossing, principal: PrincipalProcess
) -> None:
    host(crossing, principal)
    run = crossing.submit(source("half_broken"))
    task = crossing.task(run)
    with Client(principal.settings) as client:
        eventually(lambda: _task_failed(client, task.uuid))
        client.call(CancelRun(task.uuid, "the disk is full"))
    crossing.until(run, "failed")
    error = crossing.task(run).error
    assert error is not None and error["type"] == "FleetCanceled" and "the disk is full" in error["message"]


def _task_failed(client: Client, run_id: str) -> bool:
    if run_id not in {run.run_id for run in client.call(ListRuns(limit=1000))}:
        return False
    return any(task.status is Status.FAILED for task in client.call(GetRun(run_id)).tasks)


def test_a_principal_that_is_away_is_waited_for(crossing: Crossing, tmp_path: Path) -> None:
    principal = PrincipalProcess(tmp_path)
    principal.write_workflow("sum", SUM)
    principal.start()
    principal.kill()
    bridges = host(crossing, principal)
    asked = source("sum", "sum: Long", "a: Long, names: String", 'a = 1, names = "1"')
    report = crossing.run(asked, bridges=bridges)
    assert report.status == "PAUSED" and "does not answer" in report.waiting_for[0].why
    principal.start()
    agent = AgentProcess(principal.settings, tmp_path / "agent")
    try:
        crossing.until(report.run, "completed")
        assert list(fleet_runs(principal)) == [crossing.task(report.run).uuid]
    finally:
        agent.kill()
        principal.close()


def test_a_run_that_only_new_agents_can_run_says_so_until_there_is_one(
    crossing: Crossing, tmp_path: Path
) -> None:
    principal = PrincipalProcess(tmp_path)
    principal.write_workflow("sum", SUM)
    principal.start()
    try:
        with OldPeer(principal.settings) as peer:
            peer.ask("REGISTERAGENT", "old")
        host(crossing, principal)
        run = crossing.submit(source("sum", "sum: Long", "a: Long, names: String", 'a = 1, names = "1"'))
        task = crossing.task(run)
        eventually(lambda: _notes(crossing, run))
        assert _notes(crossing, run) == [
            f"queued at fleet:sum: run {task.uuid} waits: only agents of the reference are connected (old); "
            "it needs an agent of AgentFlow for env (task second)"
        ]
        agent = AgentProcess(principal.settings, tmp_path / "agent")
        try:
            crossing.until(run, "completed")
        finally:
            agent.kill()
    finally:
        principal.close()


def _notes(crossing: Crossing, run: str) -> list[str]:
    logs = crossing.store.get_logs_by_runner(run)
    return [log.message for log in logs if "queued" in log.details]


def test_hosts_that_come_and_go_make_one_run_per_task(
    crossing: Crossing, principal: PrincipalProcess
) -> None:
    hosts = [host(crossing, principal) for _ in range(2)]
    before = set(fleet_runs(principal))
    asked = source("sum", "sum: Long", "a: Long, names: String", 'a = 1, names = "1"')
    first = [crossing.submit(asked) for _ in range(2)]
    eventually(lambda: len(set(fleet_runs(principal)) - before) == 2)
    for each in hosts:
        crossing.stop(each)
    host(crossing, principal)
    for run in first:
        crossing.until(run, "completed")
    made = set(fleet_runs(principal)) - before
    assert made == {crossing.task(run).uuid for run in first}
