"""One of everything: runs in every state, turns, runs of the fleet, messages, schedules. Tests read them by name."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from redis.asyncio import Redis
from support.eventually import eventually

from afl.coordination import (
    AgentId,
    CircuitBreaker,
    CircuitBreakerConfig,
    RedisAgentRegistry,
    RedisMessageCoordinator,
)
from afl.coordination.models import AgentMessage, FailureType, MessageType
from afl.fleet.messages import Status
from afl.operations.fleet import fleet
from afl.operations.program.flows import list_flows
from afl.operations.program.library import publish_source
from afl.operations.run import control
from afl.operations.turn import turns
from afl.operations.turn.turn_store import TurnStore
from afl.operations.work import timetable
from afl.runtime.persistence.changes import IterationChanges
from browser.live_system import SHOP, LiveSystem, shop

MARKUP = "<script>window.marked = true</script><img src=x onerror='window.marked = true'>"
MANY = 120
OLD = 70  # more than a page of the list
CLERK = AgentId(type="clerk", instance="1")


@dataclass(frozen=True)
class Seeds:
    """The ids of what was sown."""

    completed: str
    failed: str
    waiting: str
    running: str
    paused: str
    canceled: str
    many: str
    marked: str  # its inputs, its error and its log have markup in them
    priced: str  # waits for a person who may edit
    approval: str  # what that person is asked: the id of its task
    turn: str
    fleet_run: str
    flow: str


def sow(live: LiveSystem) -> Seeds:
    """Make all of it, side by side, and wait until it stands as it should."""
    completed = live.submit("Inventory")
    _old_runs(live, completed)
    many = live.submit("Many", numbers=list(range(MANY)))
    failed = live.submit("Mended", name="vase")
    marked = live.submit("Mended", name=MARKUP)
    waiting = live.submit("Unserved", street="Elm Street")
    running, paused, canceled = (live.submit("Held", name=f"gate {each}") for each in ("one", "two", "three"))
    priced = live.submit("Priced", item="flour", price=1.2)
    turn = turns.send(TurnStore(live.settings), "clerk", f"How much is there of {MARKUP}")
    with fleet.connected(live.fleet) as client:
        fleet_run = fleet.start(client, "nightly", {"day": "tuesday"})
        asyncio.run(_messages(live.settings.redis))
        timetable.add(live.store, shop("Inventory"), {"shelf": "south"}, cron="0 6 * * 1-5", name="morning")
        for run in (completed, many):
            live.until(run, "completed")
        for run in (failed, marked):
            live.until(run, "failed")
        for run in (waiting, running, paused, canceled, priced):
            _until_waiting(live, run)
        control.pause(live.store, paused, by="ada")
        control.cancel(live.store, canceled, by="ada")
        eventually(lambda: fleet.show_run(client, fleet_run).run.status is Status.FAILED)
    assert turns.wait(TurnStore(live.settings), turn) is not None
    return Seeds(
        completed=completed,
        failed=failed,
        waiting=waiting,
        running=running,
        paused=paused,
        canceled=canceled,
        many=many,
        marked=marked,
        priced=priced,
        approval=live.waiting_task(priced),
        turn=turn.agent_turn_id,
        fleet_run=fleet_run,
        flow=_flow(live),
    )


def _old_runs(live: LiveSystem, pattern: str) -> None:
    """Runs that were over long ago: their ids are the lowest there can be, so lists have them last."""
    run = live.run(pattern)
    old = replace(
        run, workflow_name="shop.Old", state="completed", settled=True, owner="", created=1, ended=2
    )
    batch = [replace(old, workflow_id=f"{number:026}") for number in range(OLD)]
    outcomes = live.store.commit_all([IterationChanges(run=each, new_run=True) for each in batch])
    assert not any(outcomes), outcomes


def _flow(live: LiveSystem) -> str:
    """The shop's source, kept in the store; its name and its first line have markup in them."""
    publish_source(live.store, f"// {MARKUP}\n{SHOP}", name=f"shop {MARKUP}")
    return list_flows(live.store).flows[0].id


def _until_waiting(live: LiveSystem, run: str) -> None:
    """Until a step of it is with somebody: that far it goes by itself."""
    eventually(lambda: live.run(run).waiting > 0, lambda: live.run(run))


async def _messages(url: str) -> None:
    """Queues, a dead letter, registered agents and circuits of which one is open."""
    async with Redis.from_url(url) as redis:
        await redis.flushdb()
        async with RedisMessageCoordinator(redis) as coordinator:
            for number in range(3):
                await coordinator.send_message(CLERK, CLERK, _message(f"order-{number}"))
            await send_dead_letter(coordinator, "order-dead")
        for instance in ("1", "2"):
            await RedisAgentRegistry(redis, heartbeat_ttl_s=3600).aregister(_Registered(instance))
        for name in ("printer", "scale"):
            await CircuitBreaker(redis, name, CircuitBreakerConfig(failure_threshold=1)).call(_nothing)
        try:
            await CircuitBreaker(redis, "printer", CircuitBreakerConfig(failure_threshold=1)).call(_fail)
        except ConnectionError:
            return
        raise AssertionError("the printer should have failed")


async def send_dead_letter(coordinator: RedisMessageCoordinator, message_id: str) -> None:
    """A message that was received and can never work."""
    owner = AgentId(type="packer", instance=message_id)
    await coordinator.send_message(CLERK, owner, _message(message_id, owner))
    received = await coordinator.receive(owner)
    assert received is not None
    await coordinator.nack(owner, received.token, FailureType.PERMANENT, f"no box is large enough {MARKUP}")


def _message(message_id: str, recipient: AgentId = CLERK) -> AgentMessage:
    return AgentMessage(
        message_id=message_id,
        sender=CLERK,
        recipient=recipient,
        message_type=MessageType.REQUEST,
        payload={"text": MARKUP},
    )


async def _nothing() -> None:
    return


async def _fail() -> None:
    raise ConnectionError("the printer is down")


class _Registered:
    """The least that a registry takes."""

    def __init__(self, instance: str) -> None:
        self.agent_id = AgentId(type="clerk", instance=instance)
        self.name = f"clerk {instance}"
        self.capabilities = ("sell", "weigh")

    def status_snapshot(self) -> dict[str, Any]:
        return {"status": "idle"}
