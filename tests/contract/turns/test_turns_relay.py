"""Outbox and relay over a NATS server that goes away: everything is published, once, in order."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from nats.aio.client import Client
from nats.js.api import StreamConfig
from support.eventually import PATIENCE_SECONDS
from support.turns_bus import Heard, started, turn, turn_ended
from support.turns_house import House

from afl.devstack import Stack, temporary_stack
from afl.kernel.database import Database, Query
from afl.kernel.notify import Subscription
from afl.kernel.presence.base import Life
from afl.turns.bus import outbox
from afl.turns.bus.base import Published
from afl.turns.bus.local import LocalBus
from afl.turns.bus.nats import NatsBus
from afl.turns.bus.nats_subscriptions import MESSAGE_ID
from afl.turns.bus.outbox import OutboxRow
from afl.turns.bus.relay import NAME, Relay
from afl.turns.message import Message
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import event_subject

_projects = itertools.count()


@pytest.fixture(scope="module")
def own_nats() -> Iterator[Stack]:
    """A server of these tests alone. It forgets message ids at once, as others do after two minutes."""
    with temporary_stack() as stack:
        asyncio.run(_forgetful(stack.up(["nats"])["nats"]))
        yield stack


async def _forgetful(url: str) -> None:
    async with connected(url) as client:
        config = StreamConfig(name="cg_evt_v1r4", subjects=["cg.v1r4.*.*.evt.*.*.>"], duplicate_window=0.1)
        await client.jetstream().add_stream(config)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Client]:
    client = Client()
    await client.connect(url)
    try:
        yield client
    finally:
        await client.close()


@pytest.fixture
def house(database: Database) -> House:
    return House(database, f"p-{next(_projects)}-{new_id('task')}")


def url_of(stack: Stack) -> str:
    return stack.up(["nats"])["nats"]


async def on_stream(url: str, house: House, agent: str = "ada") -> list[tuple[str, str]]:
    """What the stream holds for an agent: (turn, message id), in order."""
    found, last = [], 0
    subject = event_subject(house.project, "public", agent, "task")
    async with connected(url) as client:
        stream = client.jetstream()
        info = await stream.stream_info("cg_evt_v1r4", subjects_filter=subject)
        for _ in range((info.state.subjects or {}).get(subject, 0)):
            message = await stream.get_msg("cg_evt_v1r4", seq=last + 1, subject=subject, next=True)
            last = message.seq or 0
            headers = message.headers or {}
            found.append((headers["CG-Turn-Id"], headers[MESSAGE_ID]))
    return found


async def published(house: House) -> None:
    """Wait until nothing is left in the outbox."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await asyncio.to_thread(house.count, "state.outbox", "sequence is null"):
            await asyncio.sleep(0.01)


def rows_of(house: House) -> list[OutboxRow]:
    return house.read(lambda tx: outbox.unpublished(tx, 100))


def test_what_was_left_during_an_outage_is_published_in_order(house: House, own_nats: Stack) -> None:
    async def main() -> tuple[list[str], list[str]]:
        url = url_of(own_nats)
        async with started(house.database, url) as engine:
            turns = [await asyncio.to_thread(turn, house) for _ in range(2)]
            engine.relay.notify()
            await published(house)
            assert await asyncio.to_thread(own_nats.down) == ["nats"]
            turns += [await asyncio.to_thread(turn, house) for _ in range(4)]
            engine.relay.notify()
            assert await asyncio.to_thread(house.count, "state.outbox", "sequence is null") == 4
            again = await asyncio.to_thread(url_of, own_nats)
            assert again == url
            await published(house)
            return turns, [name for name, _ in await on_stream(url, house)]

    turns, told = asyncio.run(main())
    assert told == turns


def test_what_the_server_never_takes_holds_up_nothing_behind_it(
    house: House, own_nats: Stack, caplog: pytest.LogCaptureFixture
) -> None:
    large = Message(event_subject(house.project, "public", "ada", "task"), {}, {"x": "x" * 2_000_000})
    row = outbox.out_row(house.project, "cmd", large, "ada", "")
    house.write(lambda tx: tx.run(outbox.Q.store, **row))
    turns = [turn(house) for _ in range(2)]

    async def main() -> list[tuple[str, str]]:
        url = url_of(own_nats)
        async with started(house.database, url):
            await published(house)
        return await on_stream(url, house)

    assert [name for name, _ in asyncio.run(main())] == turns
    assert sum(row["out"] in each.getMessage() for each in caplog.records if each.levelname == "ERROR") == 1


def test_a_relay_that_died_before_recording_is_made_good(house: House, own_nats: Stack) -> None:
    """Published and not recorded, and the server has forgotten the ids by now."""
    turns = [turn(house) for _ in range(3)]
    rows = rows_of(house)

    async def main() -> list[tuple[str, str]]:
        url = url_of(own_nats)
        bus = NatsBus(url)
        await bus.start()
        first = await bus.store(rows[:2], {})
        assert (len(first.sequences), first.error) == (2, None)
        await bus.close()
        await _forgotten(url, house)
        async with started(house.database, url):
            await published(house)
        return await on_stream(url, house)

    told = asyncio.run(main())
    assert [name for name, _ in told] == turns
    assert len({message for _, message in told}) == 3


async def _forgotten(url: str, house: House) -> None:
    """Wait until the server no longer knows a message by an id that it was given a moment ago."""
    subject = event_subject(house.project, "public", "probe", "state")
    async with connected(url) as client, asyncio.timeout(PATIENCE_SECONDS):
        stream = client.jetstream()
        name = new_id("out")
        await stream.publish(subject, b"{}", headers={MESSAGE_ID: name})
        while (await stream.publish(subject, b"{}", headers={MESSAGE_ID: name})).duplicate:
            await asyncio.sleep(0.01)


def test_what_is_handed_to_the_relay_is_published_behind_what_another_process_left(
    house: House, own_nats: Stack
) -> None:
    """The end of the first turn is not told of: whoever is handed the second must find it."""

    async def main() -> tuple[list[str], list[tuple[str, str]]]:
        url = url_of(own_nats)
        async with started(house.database, url) as engine:
            turns = [await asyncio.to_thread(turn, house)]
            engine.relay.notify()
            await published(house)
            turns.append(await asyncio.to_thread(turn, house))
            for _ in range(4):
                name, ended = await asyncio.to_thread(turn_ended, house)
                turns.append(name)
                engine.publish(ended)
            await published(house)
        return turns, await on_stream(url, house)

    turns, told = asyncio.run(main())
    assert [name for name, _ in told] == turns


def test_a_relay_that_ends_records_what_it_has_published(house: House, own_nats: Stack) -> None:
    async def main() -> list[str]:
        async with started(house.database, url_of(own_nats)) as engine:
            received = Heard()
            await engine.bus.subscribe([event_subject(house.project, "*", "*", "task")], received)
            first = await asyncio.to_thread(turn, house)
            engine.relay.notify()
            await published(house)
            second, ended = await asyncio.to_thread(turn_ended, house)
            engine.publish(ended)
            await received.until(2)
        return [first, second]

    turns = asyncio.run(main())
    assert house.count("state.outbox", "sequence is null") == 0
    assert [row.agent_turn_id for row in house.read(lambda tx: outbox.following(tx, 0))] == turns


def test_two_relays_that_both_believe_to_be_the_one_publish_once(house: House, own_nats: Stack) -> None:
    turns = [turn(house) for _ in range(5)]
    rows = rows_of(house)

    async def main() -> tuple[dict[int, int], dict[int, int], list[tuple[str, str]]]:
        url = url_of(own_nats)
        buses = [NatsBus(url), NatsBus(url)]
        for bus in buses:
            await bus.start()
        one, two = await asyncio.gather(*(bus.store(rows, {}) for bus in buses))
        for bus in buses:
            await bus.close()
        return one.sequences, two.sequences, await on_stream(url, house)

    one, two, told = asyncio.run(main())
    assert one == two
    assert [name for name, _ in told] == turns


def test_strangers_on_the_subject_do_not_stop_the_relay(house: House, own_nats: Stack) -> None:
    first = turn(house)

    async def main() -> list[str]:
        url = url_of(own_nats)
        subject = event_subject(house.project, "public", "ada", "task")
        async with started(house.database, url) as engine, connected(url) as stranger:
            await published(house)
            foreign = {"CG-Turn-Id": "foreign", MESSAGE_ID: new_id("out")}
            await stranger.jetstream().publish(subject, b"{}", headers=foreign)
            second = await asyncio.to_thread(turn, house)
            engine.relay.notify()
            await published(house)
            assert [name for name, _ in await on_stream(url, house)] == [first, "foreign", second]
            return [second]

    assert asyncio.run(main())


def test_a_stream_that_lost_its_messages_takes_new_ones(house: House, own_nats: Stack) -> None:
    turn(house)

    async def main() -> tuple[list[str], list[str]]:
        url = url_of(own_nats)
        async with started(house.database, url) as engine, connected(url) as admin:
            await published(house)
            subject = event_subject(house.project, "public", "ada", "task")
            await admin.jetstream().purge_stream("cg_evt_v1r4", subject=subject)
            later = await asyncio.to_thread(turn, house)
            engine.relay.notify()
            await published(house)
            return [later], [name for name, _ in await on_stream(url, house)]

    turns, told = asyncio.run(main())
    assert told == turns


def test_one_relay_at_a_time_and_the_next_goes_on_at_once(house: House) -> None:
    async def main() -> tuple[str, str]:
        async with started(house.database, "local") as first:
            await asyncio.to_thread(turn, house)
            first.relay.notify()
            await published(house)
        owner = await asyncio.to_thread(_owner, house)
        async with started(house.database, "local") as second:
            await asyncio.to_thread(turn, house)
            second.relay.notify()
            await published(house)
            return owner, await asyncio.to_thread(_owner, house)

    released, held = asyncio.run(main())
    assert released == ""
    assert held == house.database.presence.id


def _owner(house: House) -> str:
    table = "state.relay" if house.database.dialect == "postgres" else "state_relay"
    row = house.read(lambda tx: tx.one(Query.of(f"select owner from {table}")))
    assert row is not None
    return str(row["owner"])


@asynccontextmanager
async def leased_to_another(house: House) -> AsyncIterator[None]:
    """The lease is another relay's, whoever had it before."""
    lease = {"name": NAME, "owner": "another", "lease_ms": 60_000, "dead": [house.database.presence.id]}
    await house.database.run("write", lambda tx: tx.one(outbox.Q.take_relay, **lease))
    try:
        yield
    finally:
        given_up = {"name": NAME, "owner": "another"}
        await house.database.run("write", lambda tx: tx.run(outbox.Q.drop_relay, **given_up))


def test_a_relay_that_lost_its_lease_records_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    turn(house)
    monkeypatch.setattr(house.database.presence, "proof", lambda owner: Life.UNKNOWN)
    wait = Subscription.wait_async

    async def main() -> int:
        async with AsyncExitStack() as stack:
            lost, refused = asyncio.Event(), asyncio.Event()

            class Slow(LocalBus):
                async def store(self, rows: Sequence[OutboxRow], last: Mapping[str, int]) -> Published:
                    published = await super().store(rows, last)
                    if not lost.is_set():
                        await stack.enter_async_context(leased_to_another(house))
                        lost.set()
                    return published

            async def noted(subscription: Subscription, timeout: float | None = None) -> frozenset[str]:
                if lost.is_set():
                    refused.set()
                return await wait(subscription, timeout)

            monkeypatch.setattr(Subscription, "wait_async", noted)
            bus = Slow(house.database)
            await bus.start()
            relay = Relay(house.database, bus)
            await relay.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await refused.wait()
            await relay.close()
            await bus.close()
            return await asyncio.to_thread(house.count, "state.outbox", "sequence is null")

    assert asyncio.run(main()) == 1


def test_a_relay_rests_whether_it_has_the_lease_or_not(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nothing to publish it looks once a second; while another one is the relay, it asks once a second."""
    monkeypatch.setattr(house.database.presence, "proof", lambda owner: Life.UNKNOWN)
    wait = Subscription.wait_async

    async def main(*, free: bool) -> str:
        rests, rested = 0, asyncio.Event()

        async def noted(subscription: Subscription, timeout: float | None = None) -> frozenset[str]:
            """The first waits are over at once."""
            nonlocal rests
            rests = rests + 1 if timeout is not None and timeout > 0.5 else 0
            if rests == 2:
                rested.set()
            return await wait(subscription, timeout if rested.is_set() else 0)

        monkeypatch.setattr(Subscription, "wait_async", noted)
        bus = LocalBus(house.database)
        await bus.start()
        relay = Relay(house.database, bus)
        async with AsyncExitStack() as stack:
            if not free:
                await stack.enter_async_context(leased_to_another(house))
            await relay.start()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await rested.wait()
            owner = await asyncio.to_thread(_owner, house)
            await relay.close()
            await bus.close()
        return owner

    assert asyncio.run(main(free=True)) == house.database.presence.id
    assert asyncio.run(main(free=False)) == "another"


def test_old_commands_are_forgotten_and_ends_of_turns_are_not(house: House) -> None:
    house.suspended("bob", house.waits(3, subject=house.subject()))
    turn(house)

    async def main() -> None:
        async with started(house.database, "local"):
            await published(house)

    asyncio.run(main())
    assert house.write(lambda tx: outbox.prune(tx, 60_000)) == 0
    assert house.write(lambda tx: outbox.prune(tx, -60_000)) == 3
    assert house.count("state.outbox", "kind = 'task'") == 1


def test_the_last_command_is_not_forgotten(house: House) -> None:
    """What is published next is numbered after it."""
    house.suspended("ada")

    async def main() -> None:
        async with started(house.database, "local") as engine:
            engine.relay.notify()
            async with asyncio.timeout(PATIENCE_SECONDS):
                while house.count("state.outbox", "sequence is null"):
                    await asyncio.sleep(0.01)

    asyncio.run(main())
    assert house.count("state.outbox") == 2
    assert house.write(lambda tx: outbox.prune(tx, -60_000)) == 1
    assert house.write(lambda tx: outbox.prune(tx, -60_000)) == 0
    (left,) = house.read(lambda tx: outbox.following(tx, 0))
    assert left.sequence == 2
