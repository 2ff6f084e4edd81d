"""What every doorbell promises, on all four wires, with real servers and real processes."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from afl.devstack import temporary_stack
from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.doorbell import Doorbell, Ear, open_doorbell
from afl.kernel.errors import InputError

SECONDS = 60.0  # far more than anything here takes: a ring that needs it is a lost ring
CREATE = Query.of("create table touched (topic text not null)", name="create")
TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")
PROGRAM = Path(__file__).with_name("doorbell_process.py")
WIRES = ["local", "sqlite", "postgres", "nats"]
CROSSING = ["sqlite", "postgres", "nats"]


@dataclass
class House:
    """A store and the setting of its doorbell."""

    store: str
    doorbell: str
    database: Database
    bell: Doorbell

    def ring(self, topic: str) -> None:
        """A commit that rings."""
        with self.bell.rings() as rings:

            def touch(tx: Transaction) -> None:
                tx.run(TOUCH, topic=topic)
                rings.add(tx, topic)

            self.database.write(touch)

    @contextmanager
    def neighbour(self) -> Iterator[subprocess.Popen[str]]:
        """Another process with the same store and doorbell."""
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.store, self.doorbell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert tell(process, None) == "ready"
                yield process
            finally:
                process.kill()


def tell(process: subprocess.Popen[str], line: str | None) -> str:
    assert process.stdin is not None and process.stdout is not None
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


@contextmanager
def opened(store: str, doorbell: str = "auto") -> Iterator[House]:
    with connect(store) as database:
        database.write(lambda tx: tx.run(CREATE))
        with open_doorbell(database, doorbell) as bell:
            assert bell.connected(SECONDS)
            yield House(store, doorbell, database, bell)


@pytest.fixture(params=WIRES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    file = f"sqlite:///{tmp_path}/afl.db"
    if request.param == "local":
        store, doorbell = "memory://", "auto"
    elif request.param == "sqlite":
        store, doorbell = file, "auto"
    elif request.param == "postgres":
        store, doorbell = request.getfixturevalue("postgres_database"), "auto"
    else:
        store, doorbell = file, request.getfixturevalue("nats_url")
    with opened(store, doorbell) as house:
        yield house


@pytest.fixture
def topic() -> str:
    """One that no other test uses: they share servers."""
    return f"t:{uuid4().hex}"


def settle(ear: Ear) -> None:
    """Use up the rings of the beginning: a new connection lets everyone look once."""
    while ear.wait(0.1):
        pass


def hear(ear: Ear, topic: str) -> bool:
    """Whether a topic is heard, whatever else is."""
    while heard := ear.wait(SECONDS):
        if topic in heard:
            return True
    return False


crossing = pytest.mark.parametrize("house", CROSSING, indirect=True)


def test_only_the_local_wire_stays_in_the_process(house: House, request: pytest.FixtureRequest) -> None:
    assert house.bell.crosses_processes == (house.store != "memory://")


def test_a_ring_between_listening_and_waiting_is_not_lost(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        house.bell.ring(topic)
        assert hear(ear, topic)


def test_a_ring_wakes_one_who_waits(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        settle(ear)
        outcome: list[bool] = []
        waiter = threading.Thread(target=lambda: outcome.append(hear(ear, topic)))
        waiter.start()
        house.ring(topic)
        waiter.join(SECONDS)
        assert outcome == [True]


def test_rings_coalesce_and_are_used_up(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        settle(ear)
        for _ in range(5):
            house.bell.ring(topic)
        assert ear.wait(SECONDS) == {topic}
        assert ear.wait(0) == frozenset()


def test_an_ear_hears_its_own_topics_only(house: House, topic: str) -> None:
    one, other, third = (f"{topic}:{n}" for n in range(3))
    with house.bell.listen([one, other]) as ear, house.bell.listen([third]) as elsewhere:
        settle(ear)
        settle(elsewhere)
        house.bell.ring(other)
        house.bell.ring("nobody-listens-to-this")
        assert ear.wait(SECONDS) == {other}
        assert elsewhere.wait(0) == frozenset()


def test_every_ear_of_a_topic_hears(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as one, house.bell.listen([topic]) as other:
        house.bell.ring(topic)
        assert hear(one, topic) and hear(other, topic)


def test_nothing_rings_for_an_ear_that_left(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        settle(ear)
    house.bell.ring(topic)
    assert ear.closed and ear.wait(SECONDS) == frozenset()


def test_doorbells_of_one_address_share_one_wire_and_thread(house: House, topic: str) -> None:
    with open_doorbell(house.database, house.doorbell) as second, second.listen([topic]) as ear:
        settle(ear)
        house.bell.ring(topic)
        assert ear.wait(SECONDS) == {topic}
        watchers = [thread for thread in threading.enumerate() if thread.name.startswith("afl-doorbell")]
        assert len(watchers) <= 1
    with house.bell.listen([topic]) as ear:
        house.bell.ring(topic)
        assert hear(ear, topic), "closing one doorbell leaves the others whole"


def test_wake_ends_a_wait(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        settle(ear)
        waiter = threading.Thread(target=ear.wait)
        waiter.start()
        ear.wake()
        waiter.join(SECONDS)
        assert not waiter.is_alive()


def test_closing_the_doorbell_wakes_all_who_wait(house: House, topic: str) -> None:
    ears = [house.bell.listen([topic]) for _ in range(3)]
    for ear in ears:
        settle(ear)
    outcome: list[frozenset[str]] = []
    waiters = [threading.Thread(target=lambda ear=ear: outcome.append(ear.wait())) for ear in ears]
    for waiter in waiters:
        waiter.start()
    house.bell.close()
    for waiter in waiters:
        waiter.join(SECONDS)
    assert outcome == [frozenset()] * 3
    with pytest.raises(InputError, match="is closed"):
        house.bell.listen([topic])
    house.bell.ring(topic)  # late, harmless


def test_waiting_from_asyncio(house: House, topic: str) -> None:
    async def scenario() -> list[frozenset[str]]:
        with house.bell.listen([topic]) as ear:
            while await ear.wait_async(0.1):
                pass
            house.bell.ring(topic)
            at_once = await ear.wait_async(SECONDS)
            waiting = asyncio.create_task(ear.wait_async(SECONDS))
            await asyncio.sleep(0)
            await house.database.run("write", lambda tx: tx.run(TOUCH, topic=topic))
            house.bell.ring(topic)
            later = await waiting
            cancelled = asyncio.create_task(ear.wait_async())
            await asyncio.sleep(0)
            cancelled.cancel()
            await asyncio.wait([cancelled])
            house.bell.ring(topic)
            while not (after := await ear.wait_async(SECONDS)):
                pass
            return [at_once, later, after]

    assert asyncio.run(scenario()) == [{topic}] * 3


@pytest.mark.parametrize("bad", ["", "two\nlines", "x" * 256])
def test_a_topic_that_cannot_be_carried_is_refused(house: House, bad: str) -> None:
    with pytest.raises(InputError, match="doorbell topic"):
        house.bell.ring(bad)
    with pytest.raises(InputError, match="doorbell topic"):
        house.bell.listen([bad])


@crossing
def test_another_process_is_heard(house: House, topic: str) -> None:
    with house.neighbour() as neighbour, house.bell.listen([topic]) as ear:
        settle(ear)
        assert tell(neighbour, f"ring {topic}") == "rung"
        assert hear(ear, topic)


@crossing
def test_a_process_that_rings_and_ends_at_once_is_heard(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        settle(ear)
        subprocess.run([sys.executable, str(PROGRAM), house.store, house.doorbell, topic], check=True)
        assert hear(ear, topic)


@crossing
def test_no_ring_is_lost_between_two_processes(house: House, topic: str) -> None:
    count = Query.of("select count(*) as n from touched where topic = :topic", name="count")
    question, reply = f"{topic}:question", f"{topic}:reply"
    with house.neighbour() as neighbour, house.bell.listen([reply]) as ear:
        assert tell(neighbour, f"echo {question} {reply}") == "listening"
        for asked in range(1, 51):
            house.ring(question)
            while house.database.select(count, topic=reply)[0]["n"] < asked:
                assert ear.wait(SECONDS), f"reply {asked} was committed, or never will be, without a ring"
    assert house.database.select(count, topic=reply)[0]["n"] == 50


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_hears_and_rings_and_leaves_the_parent_whole(house: House, topic: str) -> None:
    def in_child() -> None:
        with house.bell.listen([f"{topic}:child"]) as ear:
            house.ring(f"{topic}:child")
            assert hear(ear, f"{topic}:child")
        house.ring(topic)
        house.bell.close()

    with house.bell.listen([topic]) as ear:
        settle(ear)
        assert forked(in_child) == 0
        if not house.bell.crosses_processes:
            return
        assert hear(ear, topic)
        house.bell.ring(topic)
        assert hear(ear, topic), "the parent's wire has survived its child"
        with house.neighbour() as neighbour:
            settle(ear)
            assert tell(neighbour, f"ring {topic}") == "rung"
            assert hear(ear, topic)


def forked(work: Callable[[], object]) -> int:
    """The exit status of a child that does the work."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("house", ["postgres"], indirect=True)
def test_a_ring_in_a_transaction_sounds_when_it_commits_and_only_then(house: House, topic: str) -> None:
    kept, lost = f"{topic}:kept", f"{topic}:lost"

    class GivenUpError(Exception):
        pass

    def fail(tx: Transaction) -> None:
        house.bell.ring_in(tx, lost)
        raise GivenUpError

    with house.bell.listen([kept, lost]) as ear:
        settle(ear)
        with pytest.raises(GivenUpError):
            house.database.write(fail)
        house.database.write(lambda tx: house.bell.ring_in(tx, kept))
        assert ear.wait(SECONDS) == {kept}


@pytest.mark.parametrize("service", ["postgres", "nats"])
def test_after_a_restart_of_the_server_everyone_looks_and_rings_pass(
    service: str, tmp_path: Path, topic: str
) -> None:
    with temporary_stack() as stack:
        url = stack.up([service])[service]
        store = url if service == "postgres" else f"sqlite:///{tmp_path}/afl.db"
        doorbell = "auto" if service == "postgres" else url
        with opened(store, doorbell) as house, house.bell.listen([topic]) as ear:
            settle(ear)
            stack.down()
            house.bell.ring("while-away")  # neither fails nor waits
            assert stack.up([service])[service] == url
            assert ear.wait(SECONDS) == {topic}, "something may have been rung meanwhile"
            with house.neighbour() as neighbour:
                settle(ear)
                assert tell(neighbour, f"ring {topic}") == "rung"
                assert hear(ear, topic)


def test_a_server_that_is_not_there_costs_latency_only(tmp_path: Path, topic: str) -> None:
    with (
        connect(f"sqlite:///{tmp_path}/afl.db") as database,
        open_doorbell(database, "nats://127.0.0.1:9") as bell,
        bell.listen([topic]) as ear,
    ):
        bell.ring(topic)
        assert ear.wait(SECONDS) == {topic}
        assert not bell.connected(0)


@pytest.mark.parametrize("bad", ["mqtt://x", "on", "http://a:hush@b"])
def test_an_unknown_doorbell_is_refused(bad: str) -> None:
    with (
        connect("memory://") as database,
        pytest.raises(InputError, match="expected auto, none or") as caught,
    ):
        open_doorbell(database, bad)
    assert "hush" not in str(caught.value)


def test_none_stays_in_the_process(tmp_path: Path, topic: str) -> None:
    with connect(f"sqlite:///{tmp_path}/afl.db") as database, open_doorbell(database, "none") as bell:
        assert not bell.crosses_processes
        with bell.listen([topic]) as ear:
            bell.ring(topic)
            assert ear.wait(SECONDS) == {topic}
