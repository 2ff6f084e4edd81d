"""The agent's life: registration, work, outages, draining. The principal is one that tests can switch off."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.fleet_principal import FakePrincipal
from support.fleet_records import command, fetched, shell, workflow

from afl.fleet import spool
from afl.fleet.agent import Agent, new_identity
from afl.fleet.messages import Status
from afl.fleet.settings import FleetSettings
from afl.fleet.spool_folder import SpoolFolder
from afl.kernel.errors import StoreUnavailable

SETTINGS = FleetSettings(agent_max_concurrency=2, retry_attempts=3, default_zmq_timeout_ms=10)
ECHO = workflow(a=command("echo", "hello"), b=command("true", depends=("a",)))
GATED = workflow(a=shell("until [ -e gate ]; do sleep 0.02; done; echo through"))


def live(
    work: Callable[[FakePrincipal, Agent], Awaitable[None]],
    folder: Path,
    principal: FakePrincipal | None = None,
    settings: FleetSettings = SETTINGS,
) -> tuple[int, FakePrincipal, Agent]:
    """Run an agent beside some work; its exit code, and what the principal saw."""

    async def living() -> tuple[int, FakePrincipal, Agent]:
        line = principal or FakePrincipal()
        agent = Agent(settings, folder=folder, grace=0.2, client=line)
        running = asyncio.create_task(agent.run())
        worker = asyncio.ensure_future(work(line, agent))
        await asyncio.wait([running, worker], return_when=asyncio.FIRST_EXCEPTION)
        await worker
        return await running, line, agent

    return asyncio.run(living())


def test_ids_are_unique_per_process_and_carry_the_suffix() -> None:
    first, second = new_identity(), new_identity()
    assert first.agent_id != second.agent_id and "@" in first.agent_id and "/AG-" in first.agent_id
    named, again = new_identity("7"), new_identity("7")
    assert named.agent_id == again.agent_id and named.agent_id.endswith("/AG7")
    assert named.incarnation != again.incarnation


def test_a_run_is_fetched_run_and_reported(tmp_path: Path) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(ECHO))
        await principal.until(lambda: principal.ended("run"))
        agent.drain()

    code, principal, agent = live(work, tmp_path)
    report = principal.report(agent.identity.incarnation)
    assert code == 0
    assert principal.agents == {agent.identity.agent_id}
    assert report.run_statuses == [Status.PENDING, Status.RUNNING, Status.COMPLETED]
    assert report.lines() == ["hello"]
    assert [record.seq for record in report.records] == list(range(1, len(report.records) + 1))


def test_it_asks_only_with_a_free_slot_and_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(principal: FakePrincipal, agent: Agent) -> None:
        for number in range(3):
            principal.runs.put_nowait(fetched(GATED, run_id=f"run{number}"))
        await principal.until(lambda: principal.beats and len(principal.beats[-1].running) == 2)
        assert principal.runs.qsize() == 1 and len(principal.fetches) == 2
        assert principal.fetches[1].held == ("run0",)
        (tmp_path / "gate").touch()
        await principal.until(lambda: all(principal.ended(f"run{number}") for number in range(3)))
        agent.drain()

    code, principal, _ = live(work, tmp_path / "spool")
    assert code == 0
    assert principal.beats[0].slots == 2


def test_a_command_cancels_a_run(tmp_path: Path) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(workflow(a=command("sleep", "600"))))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        principal.cancel.append("run")
        await principal.until(lambda: principal.ended("run"))
        agent.drain()

    code, principal, agent = live(work, tmp_path)
    assert code == 0
    assert principal.status("run") is Status.CANCELED
    assert principal.report(agent.identity.incarnation).last("a").status is Status.CANCELED


def test_what_runs_goes_on_through_an_outage_and_is_reported_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flow = workflow(
        a=shell("until [ -e gate ]; do sleep 0.02; done; seq 1000"),
        b=shell("seq 1000; touch over", depends=("a",)),
    )

    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(flow))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        principal.away = True
        (tmp_path / "gate").touch()
        while not (tmp_path / "over").exists():
            await asyncio.sleep(0.01)
        assert not principal.ended("run")
        principal.away = False
        await principal.until(lambda: principal.ended("run"))
        agent.drain()

    patient = replace(SETTINGS, retry_attempts=100_000)
    code, principal, agent = live(work, tmp_path / "spool", settings=patient)
    assert (code, principal.status("run")) == (0, Status.COMPLETED)
    assert principal.report(agent.identity.incarnation).lines() == [str(n) for n in range(1, 1001)] * 2


def test_it_gives_up_only_when_nothing_runs_and_the_next_one_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def lose(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(GATED))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        principal.away = True
        await asyncio.sleep(0.3)  # many times what its retries take
        (tmp_path / "gate").touch()

    code, principal, first = live(lose, tmp_path / "spool")
    assert code == 1
    assert not principal.ended("run")

    async def deliver(principal: FakePrincipal, agent: Agent) -> None:
        await principal.until(lambda: principal.ended("run"))
        agent.drain()

    after = FakePrincipal()
    after.acked, after.records = principal.acked, principal.records
    code, after, _ = live(deliver, tmp_path / "spool", after)
    report = after.report(first.identity.incarnation)
    assert (code, after.status("run")) == (0, Status.COMPLETED)
    assert report.lines() == ["through"]
    assert [record.seq for record in report.records] == list(range(1, len(report.records) + 1))
    folder = SpoolFolder(tmp_path / "spool")
    assert folder.adopt() == []
    folder.close()


def test_without_a_principal_registration_fails_with_code_1(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.away = True

    principal = asyncio.run(_away())
    code, _, _ = live(work, tmp_path, principal)
    assert code == 1
    assert (
        "Failed to register with principal host tcp://127.0.0.1:5561. Check host is available" in caplog.text
    )


async def _away() -> FakePrincipal:
    principal = FakePrincipal()
    principal.away = True
    return principal


def test_draining_finishes_what_runs_and_takes_nothing_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def work(principal: FakePrincipal, agent: Agent) -> None:
        for number in range(3):
            principal.runs.put_nowait(fetched(GATED, run_id=f"run{number}"))
        await principal.until(lambda: principal.beats and len(principal.beats[-1].running) == 2)
        agent.drain()
        (tmp_path / "gate").touch()

    code, principal, _ = live(work, tmp_path / "spool")
    assert code == 0
    assert (principal.status("run0"), principal.status("run1")) == (Status.COMPLETED, Status.COMPLETED)
    assert principal.runs.qsize() == 1


def test_the_second_signal_ends_what_runs(tmp_path: Path) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(workflow(a=command("sleep", "600"))))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        agent.drain()
        agent.drain()

    code, principal, _ = live(work, tmp_path)
    assert code == 0
    assert principal.status("run") is Status.CRASHED


def test_the_second_signal_waits_for_no_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spool, "_LAST_ATTEMPTS", 1)
    monkeypatch.setattr(spool, "_MAX_BUFFERED", 100_000)

    def refuse(*_: object) -> None:
        raise StoreUnavailable("the disk is full")

    async def work(principal: FakePrincipal, agent: Agent) -> None:
        flow = workflow(a=shell("until [ -e go ]; do sleep 0.02; done; seq 1000000"))
        principal.runs.put_nowait(fetched(flow))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        monkeypatch.setattr(agent._folder.database, "write", refuse)
        (tmp_path / "go").touch()
        while not agent._shipper.spool.full:
            await asyncio.sleep(0.01)
        agent.drain()
        agent.drain()

    monkeypatch.chdir(tmp_path)
    code, principal, _ = live(work, tmp_path / "spool")
    assert code == 1 and not principal.ended("run")
    assert "records are lost" in caplog.text


def test_a_run_that_is_given_twice_is_run_once(tmp_path: Path) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(ECHO))
        principal.runs.put_nowait(fetched(ECHO))
        await principal.until(lambda: principal.ended("run") and len(principal.fetches) > 2)
        agent.drain()

    _, principal, agent = live(work, tmp_path)
    assert principal.report(agent.identity.incarnation).run_statuses.count(Status.RUNNING) == 1


def test_the_second_signal_waits_for_no_principal(tmp_path: Path) -> None:
    async def work(principal: FakePrincipal, agent: Agent) -> None:
        principal.runs.put_nowait(fetched(workflow(a=command("sleep", "600"))))
        await principal.until(lambda: principal.beats and principal.beats[-1].running)
        principal.away = True
        agent.drain()
        agent.drain()

    code, principal, _ = live(work, tmp_path, settings=replace(SETTINGS, retry_attempts=1_000_000))
    assert code == 1
    assert not principal.ended("run")
