"""A real principal and our own verbs: long polls, cancels, crashes, shipments, restarts by kill -9."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
import pytest
import zmq
from support.eventually import eventually
from support.fleet_stores import log_record
from support.old_peer import OldPeer
from support.principals import PrincipalProcess, running_principal

from afl.fleet.client import AsyncClient, Client
from afl.fleet.errors import PrincipalAway, RequestRefused
from afl.fleet.messages import RunRecord, Status
from afl.fleet.requests import (
    CancelRun,
    CheckWorkflows,
    FetchRun,
    GetLogs,
    GetRun,
    Heartbeat,
    ListAgents,
    ListRuns,
    ListWorkflows,
    Ping,
    RunWorkflow,
    Ship,
    WatchRun,
)
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms

T = TypeVar("T")
WAIT_MS = 30_000
REQUEUED = "name: Again\non_crash: requeue\ntasks: {a: {name: A, config: !Subprocess {cmd: 'true'}}}\n"


@pytest.fixture
def principal(tmp_path: Path) -> Iterator[PrincipalProcess]:
    with running_principal(tmp_path) as principal:
        yield principal


@pytest.fixture
def client(principal: PrincipalProcess) -> Iterator[Client]:
    with Client(principal.settings) as client:
        yield client


def together(principal: PrincipalProcess, work: Callable[[AsyncClient], Awaitable[T]]) -> T:
    async def connected() -> T:
        async with AsyncClient(principal.settings) as client:
            return await work(client)

    return asyncio.run(connected())


def status_of(seq: int, run_id: str, epoch: int, status: Status) -> RunRecord:
    return RunRecord(seq=seq, run_id=run_id, epoch=epoch, status=status, at=1)


def ship(*records: RunRecord, incarnation: str = "i") -> Ship:
    return Ship(agent_id="a", incarnation=incarnation, records=list(records))


def test_a_run_reaches_a_waiting_agent_and_its_watcher(principal: PrincipalProcess) -> None:
    async def work(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.call(FetchRun("a", "i", WAIT_MS, ())))
        await eventually_async(lambda: client.call(ListAgents()))
        run_id = (await client.call(RunWorkflow(workflow_id="hello", run_id="mine"))).run_id
        fetched = await waiting
        assert fetched is not None and (fetched.run_id, fetched.epoch, fetched.attempt) == (run_id, 1, 1)
        assert msgspec.json.decode(fetched.workflow)["id"] == "hello"
        assert (await client.call(RunWorkflow(workflow_id="hello", run_id="mine"))).run_id == "mine"
        known = (await client.call(GetRun(run_id))).run.version
        watching = asyncio.create_task(client.call(WatchRun(run_id, known, WAIT_MS)))
        acked = await client.call(ship(status_of(1, run_id, 1, Status.RUNNING)))
        assert acked.acked == 1 and (await watching).run.status is Status.RUNNING
        assert (await client.call(FetchRun("a", "i", 1, (run_id,)))) is None

    together(principal, work)


async def eventually_async(look: Callable[[], Awaitable[T]]) -> T:
    for _ in range(3000):
        found = await look()
        if found:
            return found
        await asyncio.sleep(0.01)
    raise AssertionError("it never came about")


def test_a_cancel_reaches_the_agent_through_its_parked_heartbeat(principal: PrincipalProcess) -> None:
    async def work(client: AsyncClient) -> None:
        run_id = (await client.call(RunWorkflow(workflow_id="hello"))).run_id
        fetched = await client.call(FetchRun("a", "i", WAIT_MS, ()))
        assert fetched is not None
        beat = Heartbeat(agent_id="a", incarnation="i", slots=5, running=[(run_id, 1)], wait_ms=WAIT_MS)
        parked = asyncio.create_task(client.call(beat))
        await eventually_async(lambda: _has_slots(client))
        canceled = await client.call(CancelRun(run_id, "enough"))
        assert (canceled.status, canceled.cancel_reason) == (Status.PENDING, "enough")
        assert (await parked).cancel == [run_id]
        stranger = Heartbeat(agent_id="a", incarnation="i", running=[(run_id, 9), ("none", 1)])
        assert (await client.call(stranger)).lost == [run_id, "none"]

    together(principal, work)


async def _has_slots(client: AsyncClient) -> bool:
    return any(agent.slots == 5 for agent in await client.call(ListAgents()))


def test_an_agent_that_died_while_it_waited_keeps_no_run(principal: PrincipalProcess, client: Client) -> None:
    with zmq.Context() as context, context.socket(zmq.REQ) as dead:
        dead.setsockopt(zmq.LINGER, 0)
        dead.connect(principal.settings.address(principal.settings.principal_port))
        dead.send(FetchRun("dead", "gone", 60_000, ()).frame())
        eventually(lambda: client.call(ListAgents()))
    run_id = client.call(RunWorkflow(workflow_id="hello")).run_id
    fetched = client.call(FetchRun("a", "i", WAIT_MS, ()))
    assert fetched is not None and fetched.run_id == run_id


def test_lines_are_shipped_once_watched_live_and_read_again(
    principal: PrincipalProcess, client: Client
) -> None:
    lines = [f"STDOUT {number}" for number in range(1000)]
    with OldPeer(principal.settings) as peer:
        subscriber = peer.subscriber("w\x01")
        probe = Ship(agent_id="a", incarnation="probe", records=[log_record(1, "probe", run_id="probe")])
        sent = 0

        def received() -> bool:
            nonlocal sent
            sent += 1
            record = msgspec.structs.replace(log_record(sent, "probe", run_id="probe"))
            client.call(msgspec.structs.replace(probe, records=[record]))
            return bool(subscriber.poll(50))

        eventually(received)
        request = Ship(agent_id="a", incarnation="i", records=[log_record(1, *lines, run_id="r")])
        assert client.call(request).acked == 1
        assert client.call(request).acked == 1
        live: list[bytes] = []
        while len(live) < len(lines):
            frame = subscriber.recv()
            if b"\x01r\x01" in frame:
                live.append(frame.rpartition(b"\x01")[2])
        assert live == [line.encode() for line in lines]
    page = client.call(GetLogs(run_id="r", limit=5000))
    assert [line.payload for line in page.lines] == lines
    assert client.call(GetLogs(run_id="r", after=page.position, wait_ms=1)).lines == []


def test_a_reader_waits_for_lines(principal: PrincipalProcess) -> None:
    async def work(client: AsyncClient) -> None:
        waiting = asyncio.create_task(client.call(GetLogs(run_id="r", wait_ms=WAIT_MS)))
        await client.call(Ping())
        await client.call(Ship(agent_id="a", incarnation="i", records=[log_record(1, "x", run_id="r")]))
        assert [line.payload for line in (await waiting).lines] == ["x"]

    together(principal, work)


def test_files_are_found_at_once_when_they_are_asked_for(principal: PrincipalProcess, client: Client) -> None:
    with pytest.raises(RequestRefused, match=r"No workflow exists with id etl\.new"):
        client.call(RunWorkflow(workflow_id="etl.new"))
    principal.write_workflow("etl/new")
    principal.write_workflow("etl/bad", "name: Bad\n")
    principal.write_workflow("etl/\udcff")  # a name that is no text
    assert client.call(RunWorkflow(workflow_id="etl.new")).run_id
    assert {problem.path.rpartition("/")[2] for problem in client.call(CheckWorkflows())} == {
        "bad.yml",
        "\\udcff.yml",
    }
    with pytest.raises(RequestRefused, match="has no parameter 'n'"):
        client.call(RunWorkflow(workflow_id="hello", params={"n": 1}))


def test_a_new_file_is_listed_as_soon_as_lists_are_asked_for(tmp_path: Path) -> None:
    with (
        running_principal(tmp_path, CDKTR_WORKFLOW_DIR_REFRESH_FREQUENCY_S="86400") as principal,
        Client(principal.settings) as client,
    ):
        assert list(client.call(ListWorkflows())) == ["hello"]
        principal.write_workflow("etl/new")
        eventually(lambda: list(client.call(ListWorkflows())) == ["etl.new", "hello"])


def test_old_runs_go_when_their_days_are_over(tmp_path: Path) -> None:
    with (
        running_principal(tmp_path, CDKTR_RETENTION_DAYS="1") as principal,
        Client(principal.settings) as client,
    ):
        old, new = (client.call(RunWorkflow(workflow_id="hello")).run_id for _ in range(2))
        for held in ((), (old,)):
            assert client.call(FetchRun("a", "i", WAIT_MS, held)) is not None
        records = [
            RunRecord(seq=seq, run_id=run_id, epoch=1, status=status, at=at)
            for seq, (run_id, status, at) in enumerate(
                [
                    (old, Status.RUNNING, 1),
                    (old, Status.COMPLETED, 2),
                    (new, Status.RUNNING, wall_ms()),
                    (new, Status.COMPLETED, wall_ms()),
                ],
                start=1,
            )
        ]
        assert client.call(ship(*records)).acked == 4
        principal.kill()
        principal.start()  # it looks when it begins, and once a minute
        eventually(lambda: [run.run_id for run in client.call(ListRuns(), retry=True)] == [new])


def test_kill_9_loses_nothing(principal: PrincipalProcess, client: Client) -> None:
    queued = [client.call(RunWorkflow(workflow_id="hello")).run_id for _ in range(4)]
    for number in range(2):
        assert client.call(FetchRun("a", "i", WAIT_MS, tuple(queued[:number]))) is not None
    record = log_record(2, "kept", run_id=queued[0])
    request = Ship(
        agent_id="a", incarnation="i", records=[status_of(1, queued[0], 1, Status.RUNNING), record]
    )
    assert client.call(request).acked == 2
    for _ in range(3):
        principal.kill()
        principal.start()
        assert client.call(request, retry=True).acked == 2
    runs = {run.run_id: run for run in client.call(ListRuns())}
    assert [runs[run_id].status for run_id in queued] == [Status.RUNNING, *[Status.PENDING] * 3]
    assert [line.payload for line in client.call(GetLogs(run_id=queued[0])).lines] == ["kept"]
    given = [client.call(FetchRun("b", "j", 0, ())) for _ in range(1)]
    assert given[0] is not None and given[0].run_id == queued[2]
    again = client.call(FetchRun("a", "i", 0, (queued[0],)))
    assert again is not None and (again.run_id, again.epoch) == (queued[1], 2)


def test_the_store_may_be_postgresql(tmp_path: Path, postgres_database: str) -> None:
    with running_principal(tmp_path, CDKTR_DB_PATH=postgres_database) as principal:
        with Client(principal.settings) as client:
            run_id = client.call(RunWorkflow(workflow_id="hello")).run_id
            fetched = client.call(FetchRun("a", "i", WAIT_MS, ()))
            assert fetched is not None and fetched.run_id == run_id
            records = [status_of(1, run_id, 1, Status.RUNNING), log_record(2, "kept", run_id=run_id)]
            client.call(Ship(agent_id="a", incarnation="i", records=list(records)))
            principal.kill()
            principal.start()
            assert client.call(GetRun(run_id), retry=True).run.status is Status.RUNNING
            assert [line.payload for line in client.call(GetLogs(run_id=run_id)).lines] == ["kept"]
        assert principal.stop() == 0


def test_an_address_that_is_none(tmp_path: Path) -> None:
    nowhere = FleetSettings(principal_host="*", app_data_directory=str(tmp_path))
    with Client(nowhere) as client, pytest.raises(PrincipalAway, match="is not an address"):
        client.call(Ping())


def test_no_descriptors_left_is_an_outage_and_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise zmq.ZMQError(errno.EMFILE)

    async def ask() -> None:
        async with AsyncClient(FleetSettings()) as client:
            monkeypatch.setattr(client._context, "socket", refuse)
            await client.call(Ping())

    with pytest.raises(PrincipalAway, match="no socket to ask"):
        asyncio.run(ask())


def test_a_request_is_repeated_while_the_principal_is_away(tmp_path: Path) -> None:
    with running_principal(tmp_path) as principal:
        hasty = replace(principal.settings, default_zmq_timeout_ms=100, retry_attempts=2)
        principal.kill()
        with Client(hasty) as client:
            with pytest.raises(PrincipalAway, match=r"does not answer$"):
                client.call(Ping())
            with pytest.raises(PrincipalAway, match="does not answer after 2 attempts"):
                client.call(Ping(), retry=True)
        patient = replace(hasty, retry_attempts=200)

        async def work() -> None:
            async with AsyncClient(patient) as client:
                asking = asyncio.create_task(client.call(Ping(), retry=True))
                await asyncio.to_thread(principal.start)
                await asking

        asyncio.run(work())
        assert principal.stop() == 0


def test_sigterm_answers_who_waits_and_ends_cleanly(principal: PrincipalProcess) -> None:
    async def work(client: AsyncClient) -> int:
        waiting = asyncio.create_task(client.call(FetchRun("a", "i", WAIT_MS, ())))
        await eventually_async(lambda: client.call(ListAgents()))
        code = await asyncio.to_thread(principal.stop)
        assert await waiting is None
        return code

    assert together(principal, work) == 0


def test_a_silent_agent_crashes_in_time_and_its_run_goes_on_elsewhere(tmp_path: Path) -> None:
    with running_principal(tmp_path, CDKTR_AGENT_HEARTBEAT_TIMEOUT_MS="1500") as principal:
        principal.write_workflow("again", REQUEUED)
        with Client(principal.settings) as client:
            stays = client.call(RunWorkflow(workflow_id="hello")).run_id
            moves = client.call(RunWorkflow(workflow_id="again")).run_id
            for held in ((), (stays,)):
                assert client.call(FetchRun("a", "i", WAIT_MS, held)) is not None
            told = [
                status_of(number, run_id, 1, Status.RUNNING) for number, run_id in ((1, stays), (2, moves))
            ]
            client.call(ship(*told))
            taken = client.call(FetchRun("b", "j", WAIT_MS, ()))
            assert taken is not None and (taken.run_id, taken.attempt) == (moves, 2)
            eventually(lambda: client.call(GetRun(stays)).run.status is Status.CRASHED)
            client.call(
                ship(status_of(3, stays, 1, Status.COMPLETED), status_of(4, moves, 1, Status.COMPLETED))
            )
            assert client.call(GetRun(stays)).run.status is Status.COMPLETED
            assert client.call(GetRun(moves)).run.status is Status.PENDING
            client.call(ship(status_of(1, moves, taken.epoch, Status.COMPLETED), incarnation="j"))
            assert client.call(GetRun(moves)).run.status is Status.COMPLETED


def test_the_system_checks_that_silent_peers_are_still_there(principal: PrincipalProcess) -> None:
    """Otherwise the connections of a machine that was switched off stay open for good, and use up the open files."""
    settings = principal.settings
    with OldPeer(settings) as peer, Client(settings) as client:
        client.call(Ping())
        peer.pusher()
        peer.subscriber("")
        for port in (settings.principal_port, settings.logs_listening_port, settings.logs_publishing_port):
            eventually(lambda port=port: _is_kept_alive(port))


def _is_kept_alive(port: int) -> bool:
    """Whether every connection accepted on a port has a keepalive timer (2), and there is one."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    accepted = [row for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"]
    return bool(accepted) and all(row[5].startswith("02:") for row in accepted)


def test_two_principals_cannot_have_one_port(principal: PrincipalProcess, tmp_path: Path) -> None:
    second = PrincipalProcess(tmp_path)
    second.settings = principal.settings
    with pytest.raises(AssertionError, match="did not start: 1"):
        second.start()
    second.close()
