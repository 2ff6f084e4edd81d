"""The server goes away and comes back: clear errors, reconnection, no loss of what was accepted."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from typing import Any
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Redis
from redis.exceptions import RedisError
from support.eventually import PATIENCE_SECONDS, eventually
from support.post_office import ANN, BOB, Post, letter, must_receive
from support.registries import Helper

from afl.coordination.broker import Waiters
from afl.coordination.consumer import Consumer
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import (
    CoordinatorStoreError,
    CoordinatorUnavailable,
    MessageCoordinatorError,
    PermanentFailure,
    RequestTimeout,
)
from afl.coordination.models import AgentId, MessageType, ReceivedMessage
from afl.coordination.notifier import RedisNotifier
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.coordination.redis_registry import RedisAgentRegistry
from afl.devstack import Stack, temporary_stack
from afl.kernel.errors import StoreError, StoreUnavailable


@pytest.fixture(scope="module")
def own_server() -> Iterator[Stack]:
    """A Redis server of these tests alone, with its append-only file: nobody else minds when it stops."""
    with temporary_stack() as stack:
        yield stack


@pytest.fixture
def url(own_server: Stack) -> str:
    return own_server.up(["redis"])["redis"]


async def stopped(server: Stack) -> None:
    await asyncio.to_thread(server.down)


async def started(server: Stack, url: str) -> None:
    assert (await asyncio.to_thread(server.up, ["redis"]))["redis"] == url, "another port"


async def send_some(coordinator: QueueCoordinator, start: int) -> list[str]:
    """Sends until the server is gone; the ids of those that were accepted."""
    accepted = []
    for number in range(start, start + 100_000):
        try:
            result = await coordinator.send_message(ANN, BOB, letter(number))
        except CoordinatorUnavailable:
            return accepted
        assert result.delivered
        accepted.append(result.message_id)
    raise AssertionError("the server never went away")


def is_asleep(coordinator: QueueCoordinator) -> bool:
    """Whether one who waits has looked in vain."""
    return any(each._sleep is not None for each in coordinator._broker._waiters._waiting.get("bob:one", ()))


async def kill_server(redis: Redis) -> None:
    pid = (await redis.info("server"))["process_id"]
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_what_was_accepted_outlives_the_server(own_server: Stack, url: str, how: str) -> None:
    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        coordinator = post.coordinator(queue_size=1_000_000)
        sending = asyncio.create_task(send_some(coordinator, 0))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await coordinator.statistics(BOB)).total < 100:
                await asyncio.sleep(0.001)
        held = await must_receive(coordinator)
        acked = await must_receive(coordinator)
        assert await coordinator.ack(BOB, acked.token)
        if how == "kill":
            await kill_server(post.redis)
        await stopped(own_server)
        accepted = set(await asyncio.wait_for(sending, 60))
        for act in (
            coordinator.send_message(ANN, BOB, letter()),
            coordinator.receive(BOB),
            coordinator.queues(),
        ):
            with pytest.raises(CoordinatorUnavailable, match="does not answer") as caught:
                await act
            assert isinstance(caught.value, StoreUnavailable)
            assert isinstance(caught.value, MessageCoordinatorError)
        await started(own_server, url)
        assert await coordinator.ack(BOB, held.token), "its reservation outlived the server"
        found = {acked.message.message_id, held.message.message_id}
        while batch := await coordinator.receive_batch(BOB, 500, 60):
            assert all(await coordinator.ack_batch(BOB, [each.token for each in batch]))
            found |= {each.message.message_id for each in batch}
        assert accepted <= found
        assert len(found - accepted) <= 1, "one more may be there whose answer was lost"
        await post.close()

    asyncio.run(story())


def test_those_who_wait_are_told_and_go_on_afterwards(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        coordinator = post.coordinator(fallback_interval=3600.0)
        waiting = [asyncio.create_task(coordinator.receive(BOB, 60, wait=3600)) for _ in range(3)]
        asking = asyncio.create_task(coordinator.request(BOB, ANN, {}, timeout=3600))
        assert await coordinator.receive(ANN, 60, wait=60) is not None
        await stopped(own_server)
        for task in [*waiting, asking]:
            with pytest.raises(CoordinatorUnavailable):
                await asyncio.wait_for(task, 60)
        await started(own_server, url)
        again = asyncio.create_task(coordinator.receive(BOB, 60, wait=3600))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not coordinator._broker._waiters._waiting:
                await asyncio.sleep(0.001)
        await coordinator.send_message(ANN, BOB, letter())
        assert await asyncio.wait_for(again, 60) is not None
        with pytest.raises(RequestTimeout):
            await coordinator.request(BOB, ANN, {}, timeout=0.01)
        await post.close()

    asyncio.run(story())


def test_a_consumer_lives_through_it(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        coordinator = post.coordinator()
        seen: list[str] = []

        async def handler(received: ReceivedMessage) -> None:
            seen.append(received.message.message_id)

        async with Consumer(coordinator, BOB, handler, concurrency=4):
            await coordinator.send_message(ANN, BOB, letter(1))
            await asyncio.to_thread(eventually, lambda: "letter-1" in seen)
            await stopped(own_server)
            await started(own_server, url)
            await coordinator.send_message(ANN, BOB, letter(2))
            await asyncio.to_thread(eventually, lambda: "letter-2" in seen)
        await post.close()

    asyncio.run(story())


@pytest.mark.parametrize("fails", [False, True], ids=["done", "failed"])
def test_what_a_handler_did_while_the_server_was_away_is_reported_when_it_is_back(
    own_server: Stack, url: str, fails: bool
) -> None:
    async def story() -> None:
        post = Post(url)
        coordinator = post.coordinator()
        calls: list[str] = []
        away = asyncio.Event()

        async def handler(received: ReceivedMessage) -> None:
            calls.append(received.message.message_id)
            await stopped(own_server)
            away.set()
            if fails:
                raise PermanentFailure("no such address")

        async with Consumer(coordinator, BOB, handler, visibility_timeout=3600.0):
            await coordinator.send_message(ANN, BOB, letter(1))
            await away.wait()
            await started(own_server, url)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await coordinator.statistics(BOB)).in_flight:
                    await asyncio.sleep(0.01)
            assert (await coordinator.statistics(BOB)).dead == int(fails)
        assert calls == ["letter-1"]
        await post.close()

    asyncio.run(story())


@pytest.mark.parametrize("kept", [True, False], ids=["append-only file", "nothing kept"])
def test_consumers_at_work_live_through_the_death_of_the_server(
    own_server: Stack, url: str, kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its file the server comes back empty: what it had is lost, and everybody goes on all the same."""

    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        coordinator = post.coordinator(queue_size=1_000_000)
        handled: set[str] = set()

        async def handler(received: ReceivedMessage) -> dict[str, Any] | None:
            handled.add(received.message.message_id)
            await asyncio.sleep(0.002)
            return {"n": received.message.payload["n"]}

        async def has(ids: Iterable[str]) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not handled.issuperset(ids):
                    await asyncio.sleep(0.005)

        registry = RedisAgentRegistry(post.redis, post.prefix, heartbeat_interval_s=0.05)
        async with Consumer(coordinator, BOB, handler, concurrency=8):
            await registry.aregister(Helper("helper", "one"))
            registry.start_heartbeats()
            sending = asyncio.create_task(send_some(coordinator, 0))
            await has(["letter-50"])
            await kill_server(post.redis)
            await stopped(own_server)
            accepted = await asyncio.wait_for(sending, PATIENCE_SECONDS)
            await asyncio.to_thread(eventually, lambda: "does not answer" in caplog.text)
            if not kept:
                for file in (own_server.folder / "redis" / "data").rglob("*.aof*"):
                    file.unlink()
            await started(own_server, url)
            if kept:
                await has(accepted)
            later = [f"letter-later{number}" for number in range(20)]
            for number in range(20):
                assert (await coordinator.send_message(ANN, BOB, letter(f"later{number}"))).delivered
            await has(later)
            answer = await coordinator.request(ANN, BOB, {"n": 7}, timeout=PATIENCE_SECONDS)
            assert answer.payload == {"n": 7}
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not [each for each in await registry.list_registered() if each["alive"]]:
                    await asyncio.sleep(0.01)
        await registry.close()
        await post.close()

    asyncio.run(story())
    assert [each.getMessage() for each in caplog.records if each.exc_info] == []


async def listeners(redis: Redis) -> set[str]:
    """The connections that listen for notifies."""
    return {client["id"] for client in await redis.client_list(_type="pubsub") if client["sub"] != "0"}


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError), closing(sink):
        while data := await source.read(65536):
            sink.write(data)


@asynccontextmanager
async def broken_line(url: str, *broken: int) -> AsyncIterator[str]:
    """An address where these connections, counted from 1, are closed at their first word."""
    made = 0

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal made
        made += 1
        if made in broken:
            await reader.read(1)
            writer.close()
            return
        there = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"


@pytest.mark.parametrize(("broken", "works"), [((1,), True), ((1, 2), False)])
def test_one_connection_that_breaks_while_it_is_made_is_made_again(
    own_server: Stack, url: str, broken: tuple[int, ...], works: bool
) -> None:
    async def story() -> None:
        async with broken_line(url, *broken) as address, Redis.from_url(address) as redis:
            notifier = RedisNotifier(redis, Waiters())
            received = notifier.receive("channel", "queue", 60)
            if works:
                await received
                assert await redis.pubsub_numsub("channel") == [(b"channel", 1)]
            else:
                with pytest.raises(RedisError):
                    await received
            await notifier.close()

    asyncio.run(story())


def test_a_broken_connection_is_replaced(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        coordinator = post.coordinator(fallback_interval=3600.0)
        waiting = asyncio.create_task(coordinator.receive(BOB, 60, wait=3600))
        seen: set[str] = set()
        async with asyncio.timeout(PATIENCE_SECONDS), Redis.from_url(url) as other:
            for kind in ("pubsub", "normal"):
                # One that is only being made is told to whoever waits: it must be a new one, and complete.
                while not (listening := await listeners(other)) - seen or not is_asleep(coordinator):
                    await asyncio.sleep(0.001)
                seen |= listening
                killed = await other.execute_command("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
                assert killed, f"there was no {kind} connection"
                await asyncio.sleep(0)
        assert (await coordinator.send_message(ANN, BOB, letter())).delivered
        assert await asyncio.wait_for(waiting, 60) is not None
        await post.close()

    asyncio.run(story())


def test_connections_that_break_while_they_are_used_are_told_and_none_is_kept(url: str) -> None:
    """The driver connects again by itself, for the task that reads and for those that subscribe."""

    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        async with Redis.from_url(url, max_connections=10) as redis:
            coordinator = RedisMessageCoordinator(redis, post.prefix)
            for number in range(200):
                with suppress(CoordinatorUnavailable):
                    await coordinator.receive(AgentId(type=f"a{number}"), wait=0.001)
                await post.redis.client_kill_filter(_type="pubsub")
                for _ in range(number % 8):
                    await asyncio.sleep(0)
                with suppress(CoordinatorUnavailable):
                    await coordinator.receive(AgentId(type=f"b{number}"), wait=0.001)
            await coordinator.close()
            await asyncio.gather(*(redis.ping() for _ in range(10)))  # each needs a connection of its own
        await post.close()

    asyncio.run(story())


def test_a_subscription_that_could_not_be_stored_is_told_by_flush(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        coordinator = post.coordinator()
        await stopped(own_server)
        coordinator.subscribe_to_messages(BOB, [MessageType.EVENT])
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.flush()
        await coordinator.flush()
        await started(own_server, url)
        await post.close()

    asyncio.run(story())


def test_what_an_outage_keeps_from_being_delivered_is_counted(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        coordinator = post.coordinator()
        await stopped(own_server)
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.send_message(ANN, BOB, letter())
        with pytest.raises(CoordinatorUnavailable):
            await coordinator.broadcast_message(ANN, letter(), [BOB, ANN])
        await started(own_server, url)
        counted = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
        assert counted["delivery"] == {"delivered_ok": 0, "delivered_error": 3}
        await post.close()

    asyncio.run(story())


def test_a_server_that_became_a_replica_is_left_for_the_new_primary(own_server: Stack, url: str) -> None:
    """Behind one address, as with most failovers: whoever is connected stays connected to the former primary."""

    async def story(successor: str) -> None:
        primary = url

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there = await asyncio.open_connection(urlsplit(primary).hostname, urlsplit(primary).port)
            await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

        async with await asyncio.start_server(accept, "127.0.0.1", 0) as server, Redis.from_url(url) as old:
            address = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
            post = Post(address)
            coordinator = post.coordinator()
            await asyncio.gather(*(coordinator.send_message(ANN, BOB, letter(n)) for n in range(5)))
            primary = successor
            await old.replicaof("127.0.0.1", urlsplit(successor).port)
            try:
                with pytest.raises(CoordinatorUnavailable, match="accepts no writes"):
                    await coordinator.send_message(ANN, BOB, letter(5))
                assert (await coordinator.send_message(ANN, BOB, letter(6))).delivered
                assert (await must_receive(coordinator)).message.message_id == "letter-6"
            finally:
                await old.replicaof("NO", "ONE")
                await post.close()

    with temporary_stack() as other:
        asyncio.run(story(other.up(["redis"])["redis"]))


def test_a_server_without_memory_refuses_and_stores_nothing(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        coordinator = post.coordinator()
        await post.redis.config_set("maxmemory", "1")
        try:
            with pytest.raises(CoordinatorStoreError, match="maxmemory") as caught:
                await coordinator.send_message(ANN, BOB, letter())
            assert isinstance(caught.value, StoreError)
        finally:
            await post.redis.config_set("maxmemory", "0")
        assert await coordinator.queues() == []
        assert (await coordinator.statistics(BOB)).total == 0
        await post.close()

    asyncio.run(story())


def test_a_server_without_memory_lets_messages_be_worked_off(own_server: Stack, url: str) -> None:
    async def story() -> None:
        post = Post(url)
        assert post.redis is not None
        coordinator = post.coordinator()
        for number in range(3):
            await coordinator.send_message(ANN, BOB, letter(number))
        await post.redis.config_set("maxmemory", "1")
        try:
            assert await coordinator.ack(BOB, (await must_receive(coordinator)).token)
            assert await coordinator.nack(BOB, (await must_receive(coordinator)).token)
            assert await coordinator.release(BOB, [(await must_receive(coordinator)).token]) == [True]
        finally:
            await post.redis.config_set("maxmemory", "0")
        assert (await coordinator.statistics(BOB)).total == 2
        await post.close()

    asyncio.run(story())


def test_a_client_whose_connections_are_all_in_use_is_waited_for(url: str) -> None:
    async def story() -> None:
        post = Post(url)
        redis = Redis.from_url(url, max_connections=2)
        coordinators = [RedisMessageCoordinator(redis, post.prefix) for _ in range(20)]
        broadcasts = [each.broadcast_message(ANN, letter(), [BOB] * 5) for each in coordinators]
        sends = [each.send_message(ANN, BOB, letter()) for each in coordinators]
        results = await asyncio.gather(*broadcasts, *sends)
        assert len(results) == 40
        assert (await coordinators[0].statistics(BOB)).total == 120
        await redis.aclose()
        await post.close()

    asyncio.run(story())


def test_nobody_at_that_address() -> None:
    async def story() -> None:
        redis = Redis.from_url("redis://127.0.0.1:1/0")
        async with RedisMessageCoordinator(redis) as coordinator:
            for act in (
                coordinator.send_message(ANN, BOB, letter()),
                coordinator.broadcast_message(ANN, letter(), [BOB]),
                coordinator.receive(BOB, wait=1),
                coordinator.recover_pending(),
            ):
                with pytest.raises(CoordinatorUnavailable):
                    await act
        await redis.aclose()

    asyncio.run(story())
