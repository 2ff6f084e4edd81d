"""What every bus promises: local on the kernel's notifier, and NATS."""

from __future__ import annotations

import asyncio

import pytest
from support.eventually import PATIENCE_SECONDS
from support.turns_bus import Heard, started, turn
from support.turns_house import House

from afl.kernel.codec import encode
from afl.kernel.database import Database, connect
from afl.kernel.errors import InputError
from afl.turns.bus import LocalBus, open_bus
from afl.turns.bus.base import MAX_DELIVER
from afl.turns.bus.nats import NatsBus
from afl.turns.errors import BusUnavailable
from afl.turns.message import Message
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import event_subject, wakeup_subject
from afl.turns.transitions import finish

KINDS = ("local", "nats")


@pytest.fixture(params=KINDS)
def bus_url(request: pytest.FixtureRequest) -> str:
    return "local" if request.param == "local" else str(request.getfixturevalue("nats_url"))


@pytest.fixture
def project() -> str:
    """One that no other test has: a server keeps what was published."""
    return f"p-{new_id('task')}"


def test_addresses(database: Database) -> None:
    assert isinstance(open_bus(database), LocalBus)
    assert isinstance(open_bus(database, "nats://127.0.0.1:4222"), NatsBus)
    with pytest.raises(InputError, match="expected local"):
        open_bus(database, "redis://localhost")


def test_a_server_that_is_not_there_is_named() -> None:
    async def main() -> None:
        bus = NatsBus("nats://127.0.0.1:9")
        with pytest.raises(BusUnavailable, match="does not answer"):
            await bus.start()

    asyncio.run(main())


def test_what_is_told_is_heard_by_those_who_listen(database: Database, bus_url: str, project: str) -> None:
    async def main() -> list[str]:
        async with started(database, bus_url, relay=False) as engine:
            received = Heard()
            await engine.bus.subscribe([f"cg.v1r4.{project}.*.evt.agent.*.>"], received)
            for number, kind in enumerate(("state", "step", "state")):
                engine.tell(
                    Message(event_subject(project, "public", "ada", kind), {"n": str(number)}, {"n": number})
                )
            engine.tell(Message(event_subject(f"{project}x", "public", "ada", "state"), {}, {"n": 9}))
            messages = await received.until(3)
            assert [message.payload["n"] for message in messages] == [0, 1, 2]
            assert messages[0].headers["n"] == "0"
            return [message.subject.rsplit(".", 1)[1] for message in messages]

    assert asyncio.run(main()) == ["state", "step", "state"]


def test_what_cannot_be_told_keeps_nothing_back(database: Database, bus_url: str, project: str) -> None:
    async def main() -> None:
        async with started(database, bus_url, relay=False) as engine:
            received = Heard()
            await engine.bus.subscribe([f"cg.v1r4.{project}.*.evt.agent.*.>"], received)
            subject = event_subject(project, "public", "ada", "state")
            for message in (
                Message(subject, {}, {"n": object()}),
                Message(subject, {"n": "\ud800"}, {"n": object()}),
                Message(subject, {}, {"n": "x" * 9_000_000}),
                Message(subject, {}, {"n": 1}),
            ):
                engine.tell(message)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not received.messages or received.messages[-1].payload["n"] != 1:
                    await received.until(len(received.messages) + 1)

    asyncio.run(main())


def test_a_ring_wakes_the_workers_of_its_target(database: Database, bus_url: str, project: str) -> None:
    async def main() -> tuple[bool, bool, bool]:
        async with started(database, bus_url, relay=False) as engine:
            mine = await engine.bus.listen([f"t_{project}"])
            other = await engine.bus.listen([f"u_{project}"])
            subject = wakeup_subject(project, "public", f"t_{project}")
            engine.tell(Message(subject, {"CG-Agent-Id": "ada"}, {}))
            rang = await mine.wait(PATIENCE_SECONDS)
            other.wake()
            woken = await other.wait(PATIENCE_SECONDS)
            again = await mine.wait(0)
            await mine.close()
            await other.close()
            return rang, woken, again

    assert asyncio.run(main()) == (True, False, False)


def test_ends_of_turns_are_published_once_and_in_order(
    database: Database, bus_url: str, project: str
) -> None:
    house = House(database, project)

    async def main() -> tuple[list[str], list[str]]:
        async with started(database, bus_url) as engine:
            received = Heard()
            await engine.bus.subscribe([f"cg.v1r4.{project}.*.evt.agent.*.task"], received)
            turns = []
            for _ in range(5):
                turns.append(await asyncio.to_thread(turn, house))
                engine.relay.notify()
            return turns, [m.payload["agent_turn_id"] for m in await received.until(5)]

    turns, told = asyncio.run(main())
    assert told == turns
    assert house.count("state.outbox", "sequence is null") == 0


def test_a_consumer_hears_what_was_published_while_it_was_away(
    database: Database, bus_url: str, project: str
) -> None:
    house = House(database, project)
    pattern = [f"cg.v1r4.{project}.*.evt.agent.*.task"]

    async def main() -> tuple[list[str], list[str]]:
        async with started(database, bus_url) as engine:
            first, second = Heard(), Heard()
            before = [await asyncio.to_thread(turn, house) for _ in range(3)]
            engine.relay.notify()
            reading = await engine.bus.consume(f"c_{project}", pattern, first)
            await first.until(3)
            await reading.close()
            after = [await asyncio.to_thread(turn, house) for _ in range(2)]
            engine.relay.notify()
            await engine.bus.consume(f"c_{project}", pattern, second)
            while (await second.until(len(second.messages) + 1))[-1].payload["agent_turn_id"] != after[-1]:
                continue  # the last of the first three may come again: its acknowledgment was cut off
            told = [m.payload["agent_turn_id"] for m in [*first.messages, *second.messages]]
            return [*before, *after], told

    turns, told = asyncio.run(main())
    assert list(dict.fromkeys(told)) == turns


def test_a_consumer_that_fails_gets_the_message_again(database: Database, bus_url: str, project: str) -> None:
    house = House(database, project)

    async def main() -> tuple[int, list[str]]:
        async with started(database, bus_url) as engine:
            received, failures = Heard(), 0

            async def fail_first(message: Message) -> None:
                nonlocal failures
                if failures < 2:
                    failures += 1
                    raise RuntimeError("not yet")
                await received(message)

            await asyncio.to_thread(turn, house)
            engine.relay.notify()
            await engine.bus.consume(f"f_{project}", [f"cg.v1r4.{project}.*.evt.agent.*.task"], fail_first)
            told = [message.subject for message in await received.until(1)]
            return failures, told

    failures, told = asyncio.run(main())
    assert failures == 2 < MAX_DELIVER
    assert told == [event_subject(project, "public", "ada", "task")]


class HeldCallback:
    """Its calls stay under way until they are let go."""

    def __init__(self) -> None:
        self.begun, self.ended = Heard(), Heard()
        self.gate = asyncio.Semaphore(0)

    async def __call__(self, message: Message) -> None:
        await self.begun(message)
        await self.gate.acquire()
        await self.ended(message)


def turns_of(messages: list[Message]) -> list[str]:
    return [message.payload["agent_turn_id"] for message in messages]


def test_a_consumer_handles_as_many_messages_at_once_as_it_is_told(
    database: Database, bus_url: str, project: str
) -> None:
    house = House(database, project)

    async def main() -> None:
        async with started(database, bus_url) as engine:
            held = HeldCallback()
            turns = [await asyncio.to_thread(turn, house) for _ in range(5)]
            engine.relay.notify()
            pattern = [f"cg.v1r4.{project}.*.evt.agent.*.task"]
            await engine.bus.consume(f"m_{project}", pattern, held, concurrency=3)
            assert turns_of(await held.begun.until(3)) == turns[:3]
            held.gate.release()
            assert len(await held.begun.until(4)) == 4  # the fourth only when one was done
            assert len(held.ended.messages) == 1
            for _ in range(4):
                held.gate.release()
            assert sorted(turns_of(await held.ended.until(5))) == sorted(turns)

    asyncio.run(main())


def test_what_was_under_way_when_a_consumer_closed_comes_again(
    database: Database, bus_url: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.turns.bus.nats._ACK_WAIT", 0.3)
    house = House(database, project)

    async def main() -> tuple[list[str], list[str], list[str]]:
        async with started(database, bus_url) as engine:
            held, later = HeldCallback(), Heard()
            turns = [await asyncio.to_thread(turn, house) for _ in range(3)]
            engine.relay.notify()
            pattern = [f"cg.v1r4.{project}.*.evt.agent.*.task"]
            reading = await engine.bus.consume(f"k_{project}", pattern, held, concurrency=3)
            await held.begun.until(3)
            held.gate.release()
            await held.ended.until(1)
            await reading.close()
            held.gate.release()
            await engine.bus.consume(f"k_{project}", pattern, later, concurrency=3)
            while len(set(turns_of(later.messages)) - set(turns_of(held.ended.messages))) < 2:
                await later.until(len(later.messages) + 1)
            return turns, turns_of(held.ended.messages), turns_of(later.messages)

    turns, ended, again = asyncio.run(main())
    assert len(ended) == 1 and set(again) | set(ended) == set(turns)


def test_a_message_that_fails_does_not_hold_up_the_others(
    database: Database, bus_url: str, project: str
) -> None:
    house = House(database, project)

    async def main() -> tuple[list[str], list[str], int]:
        async with started(database, bus_url) as engine:
            received, failed = Heard(), Heard()
            turns = [await asyncio.to_thread(turn, house) for _ in range(3)]

            async def fail_one(message: Message) -> None:
                if message.payload["agent_turn_id"] == turns[0]:
                    await failed(message)
                    if len(failed.messages) < 3:
                        raise RuntimeError("not yet")
                    await received.until(2)
                await received(message)

            engine.relay.notify()
            pattern = [f"cg.v1r4.{project}.*.evt.agent.*.task"]
            await engine.bus.consume(f"g_{project}", pattern, fail_one, concurrency=2)
            return turns, turns_of(await received.until(3)), len(failed.messages)

    turns, told, failures = asyncio.run(main())
    assert failures == 3 and told == [turns[1], turns[2], turns[0]]


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_consumer_of_no_messages_at_once_is_refused(
    database: Database, bus_url: str, project: str, wrong: int
) -> None:
    async def main() -> None:
        async with started(database, bus_url, relay=False) as engine:
            with pytest.raises(InputError, match="at least 1"):
                await engine.bus.consume(f"n_{project}", [f"cg.v1r4.{project}.>"], Heard(), concurrency=wrong)

    asyncio.run(main())


def test_a_long_callback_keeps_its_place(
    database_url: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one store, another process must not take over a consumer whose process is at work."""
    monkeypatch.setattr("afl.turns.bus.cursor.LEASE_MS", 3000)

    async def main(first: Database, second: Database) -> tuple[int, int]:
        house = House(first, project)
        async with started(first, "local") as here, started(second, "local") as there:
            held, other = HeldCallback(), Heard()
            pattern = [f"cg.v1r4.{project}.*.evt.agent.*.task"]
            await here.bus.consume(f"l_{project}", pattern, held, concurrency=2)
            await asyncio.to_thread(turn, house)
            here.relay.notify()
            await held.begun.until(1)
            await there.bus.consume(f"l_{project}", pattern, other, concurrency=2)
            await asyncio.sleep(4.0)  # what is being tested: more than a lease
            held.gate.release()
            await held.ended.until(1)
            return len(held.begun.messages), len(other.messages)

    with connect(database_url) as first, connect(database_url) as second:
        assert asyncio.run(main(first, second)) == (1, 0)


def test_processes_on_one_store_hear_each_other(database_url: str, project: str) -> None:
    """Two databases on one address stand for two processes."""

    async def main(first: Database, second: Database) -> tuple[bool, str, str]:
        house = House(first, project)
        async with started(first, "local") as here, started(second, "local") as there:
            received = Heard()
            await there.bus.subscribe([f"cg.v1r4.{project}.*.evt.agent.*.task"], received)
            subscription = await there.bus.listen(["generic"])
            result = await asyncio.to_thread(house.enqueue)
            here.publish(result)
            rang = await subscription.wait(PATIENCE_SECONDS)
            head = house.head()
            ended = await here.run(lambda tx: finish(tx, head, house.ending(head)))
            (message,) = await received.until(1)
            await subscription.close()
            return rang, message.payload["agent_turn_id"], ended.payload["agent_turn_id"]

    with connect(database_url) as first, connect(database_url) as second:
        rang, told, ended = asyncio.run(main(first, second))
    assert rang
    assert told == ended


def test_a_long_callback_keeps_its_message(
    database: Database, nats_url: str, project: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server gives a message to somebody else unless it hears that it is being handled."""
    monkeypatch.setattr("afl.turns.bus.nats._ACK_WAIT", 0.3)

    async def main() -> list[str]:
        bus = NatsBus(nats_url)
        await bus.start()
        taken: list[str] = []
        done = asyncio.Event()

        async def slow(message: Message) -> None:
            taken.append(str(message.payload["n"]))
            if len(taken) == 1:
                await asyncio.sleep(1.0)  # what is being tested: more than three times as long
            if message.payload["n"] == "last":
                done.set()

        subject = f"cg.v1r4.{project}.public.cmd.tool.far.one"
        first = await bus.consume(f"slow_{project}", [subject], slow)
        second = await bus.consume(f"slow_{project}", [subject], slow)
        for name in ("first", "last"):
            await bus.client.jetstream().publish(subject, encode({"n": name}).encode())
        async with asyncio.timeout(PATIENCE_SECONDS):
            await done.wait()
            while len(taken) == 1:
                await asyncio.sleep(0.01)
        await first.close()
        await second.close()
        await bus.close()
        return taken

    taken = asyncio.run(main())
    assert sorted(taken) == ["first", "last"]
