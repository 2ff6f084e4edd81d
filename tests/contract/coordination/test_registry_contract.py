"""What every registry of agents promises, in memory and in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from support.registries import Helper, Place, place

from afl.coordination.agent_record import AgentEvent
from afl.coordination.capabilities import Capability
from afl.coordination.errors import AgentRegistryError, RegistryInputError
from afl.coordination.models import AgentId
from afl.coordination.registry_base import BaseAgentRegistry

Here = Callable[[], AbstractAsyncContextManager[Place]]
A, B = AgentId(type="helper", instance="a"), AgentId(type="helper", instance="b")


@pytest.fixture(params=["memory", "redis"])
def here(request: pytest.FixtureRequest) -> Here:
    def url() -> str:
        found: str = request.getfixturevalue("redis_url")
        return found

    return lambda: place(request.param, url)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


async def listed(registry: BaseAgentRegistry) -> dict[str, bool]:
    """Instances, and whether they live."""
    return {each["agent_id"]["instance"]: each["alive"] for each in await registry.list_registered()}


def test_a_registered_agent_is_listed_with_everything(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            agent = Helper(instance="a", capabilities=["summarize"])
            agent.state = {"seen": 3}
            registry.register(agent)
            (found,) = await registry.list_registered()
            assert found["name"] == "helper a"
            assert found["agent_id"] == {"type": "helper", "instance": "a"}
            assert found["status"]["status"] == "idle"
            assert found["alive"] is True
            assert found["last_heartbeat"] > 0
            assert found["state"] == {"seen": 3}
            assert [each["name"] for each in found["capabilities"]] == ["summarize"]
            assert await there.registry().get(A) == found, "and others see it"
            assert await registry.get(B) is None

    run(scene())


def test_without_state_it_is_left_out_and_without_capabilities_there_are_none(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            await registry.aregister(Helper())
            (found,) = await registry.list_registered()
            assert "state" not in found
            assert found["capabilities"] == []
            assert await registry.discover() == [found]
            assert found["agent_id"] == {"type": "helper", "instance": None}

    run(scene())


class Bare:
    """All that an agent must have."""

    def __init__(self) -> None:
        self.agent_id, self.name = A, "bare"


class Plain(Bare):
    """Its optional methods are plain functions."""

    state: dict[str, Any]

    def status_snapshot(self) -> dict[str, Any]:
        return {"status": "busy"}

    def export_state(self) -> dict[str, Any]:
        return {"page": 7}

    def import_state(self, state: dict[str, Any]) -> None:
        self.state = state

    def get_capabilities(self) -> list[str]:
        return ["write"]


class Awaited(Bare):
    """Its optional methods are coroutines."""

    state: dict[str, Any]

    async def status_snapshot(self) -> dict[str, Any]:
        return {"status": "busy"}

    async def export_state(self) -> dict[str, Any]:
        return {"page": 7}

    async def import_state(self, state: dict[str, Any]) -> None:
        self.state = state

    async def get_capabilities(self) -> list[str]:
        return ["write"]


def test_an_id_and_a_name_make_an_agent(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry(enable_events=True)
            registry.register(Bare())
            await registry.flush()
            await registry.beat()
            (found,) = await registry.list_registered()
            assert (found["name"], found["status"], found["alive"]) == ("bare", {}, True)
            assert found["agent_id"] == {"type": "helper", "instance": "a"}

    run(scene())


@pytest.mark.parametrize("kind", [Plain, Awaited])
def test_what_an_agent_is_asked_may_be_plain_or_awaited(
    here: Here, kind: type[Plain] | type[Awaited]
) -> None:
    async def scene() -> None:
        async with here() as there:
            registry, again = there.registry(), kind()
            registry.register(kind())
            await registry.flush()
            (found,) = await registry.list_registered()
            assert (found["status"], found["state"]) == ({"status": "busy"}, {"page": 7})
            assert [each["name"] for each in found["capabilities"]] == ["write"]
            await there.registry().aregister(again)
            assert again.state == {"page": 7}
            await there.registry().aregister(Bare())  # takes no state back, and has none

    run(scene())


@pytest.mark.parametrize("method", ["status_snapshot", "export_state"])
@pytest.mark.parametrize("answer", ["idle", ["idle"], 1], ids=str)
def test_an_answer_that_is_no_dict_is_refused(method: str, answer: Any) -> None:
    async def scene() -> None:
        async with place("memory", str) as there:
            agent = Helper(instance="a")
            setattr(agent, method, lambda: answer)
            with pytest.raises(
                RegistryInputError, match=rf"helper:a: {method}\(\) returned .*; expected a dict"
            ):
                await there.registry().aregister(agent)

    run(scene())


def test_the_list_is_in_order(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            for kind, instance in (("b", "2"), ("a", "9"), ("b", "1"), ("a", None)):
                registry.register(Helper(kind, instance))
            found = [each["agent_id"] for each in await registry.list_registered()]
            assert [(each["type"], each["instance"]) for each in found] == [
                ("a", None),
                ("a", "9"),
                ("b", "1"),
                ("b", "2"),
            ]

    run(scene())


def test_deregistering_removes_it_for_all(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            registry.register(Helper(instance="a", capabilities=["x"]))
            registry.register(Helper(instance="b"))
            registry.deregister(A)
            assert await listed(registry) == {"b": True}
            await there.registry().aderegister(B)
            assert await listed(registry) == {}
            await registry.aderegister(B)  # nobody of that name: nothing happens
            assert await registry.discover(capability="x") == []

    run(scene())


def test_a_dead_agent_is_listed_as_dead_for_a_while_and_then_gone(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry(heartbeat_ttl_s=30, dead_retention_s=100)
            await registry.aregister(Helper(instance="a", capabilities=["x"]))
            await there.pass_time(29)
            assert await listed(registry) == {"a": True}
            await there.pass_time(2)
            assert await listed(registry) == {"a": False}
            assert await registry.discover("helper") == []
            assert len(await registry.discover("helper", include_dead=True)) == 1
            await there.pass_time(100)
            assert await listed(registry) == {}

    run(scene())


def test_heartbeats_keep_agents_alive(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry, other = there.registry(heartbeat_ttl_s=30), there.registry(heartbeat_ttl_s=30)
            agent = Helper(instance="a")
            await registry.aregister(agent)
            await other.aregister(Helper(instance="b"))
            await there.pass_time(20)
            agent.status = "busy"
            await registry.beat()
            await there.pass_time(20)
            assert await listed(other) == {"a": True, "b": False}
            found = await registry.get(A)
            assert found is not None and found["status"]["status"] == "busy"

    run(scene())


def test_an_agent_is_judged_by_its_own_ttl(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            await there.registry(heartbeat_ttl_s=300).aregister(Helper(instance="a"))
            await there.pass_time(100)
            assert await listed(there.registry(heartbeat_ttl_s=1)) == {"a": True}

    run(scene())


def test_the_background_task_beats(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry(heartbeat_ttl_s=30, heartbeat_interval_s=0.01)
            await registry.aregister(Helper(instance="a"))
            await there.pass_time(31)
            registry.start_heartbeats()
            registry.start_heartbeats()
            while not (await listed(registry))["a"]:
                await asyncio.sleep(0.01)
            registry.stop_heartbeats()
            registry.stop_heartbeats()
            await registry.close()
            assert await listed(registry) == {"a": True}, "stopping does not deregister"
            await registry.close(deregister=True)
            assert await listed(registry) == {}

    run(scene())


def test_an_agent_that_comes_again_gets_its_state_back(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            first = Helper(instance="a")
            first.state = {"chapters": [1, 2], "mood": "fine"}
            await there.registry(heartbeat_ttl_s=30).aregister(first)
            await there.pass_time(40)  # dead, but not forgotten
            second = Helper(instance="a")
            registry = there.registry()
            registry.register(second)
            await registry.flush()
            assert second.state == {"chapters": [1, 2], "mood": "fine"}
            await registry.aderegister(A)
            third = Helper(instance="a")
            await registry.aregister(third)
            assert third.state == {}, "one that left for good starts anew"

    run(scene())


def test_the_state_of_the_last_heartbeat_counts(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            agent, registry = Helper(instance="a"), there.registry()
            await registry.aregister(agent)
            agent.state = {"page": 7}
            await registry.beat()
            again = Helper(instance="a")
            await there.registry().aregister(again)
            assert again.state == {"page": 7}

    run(scene())


def test_discovery_by_type_and_capability(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            registry.register(Helper("writer", "1", [Capability(name="write", version="9.2", tags=["fast"])]))
            registry.register(Helper("writer", "2", [{"name": "write", "version": "10.0"}, "read"]))
            registry.register(Helper("reader", "3", ["read"]))
            registry.register(Helper("idler", "4"))

            async def found(*args: Any, **options: Any) -> list[str]:
                return [each["agent_id"]["instance"] for each in await registry.discover(*args, **options)]

            assert await found() == ["4", "3", "1", "2"]
            assert await found("writer") == ["1", "2"]
            assert await found(capability="read") == ["3", "2"]
            assert await found("writer", "read") == ["2"]
            assert await found(capability="write", version="9.3") == ["2"], "numbers, not letters"
            assert await found(capability="write", version="9.2.0") == ["1", "2"]
            assert await found(capability="write", tags=["fast"]) == ["1"]
            assert await found(capability="Write") == []

    run(scene())


def test_a_question_that_makes_no_sense_is_refused(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            with pytest.raises(RegistryInputError, match="name the capability"):
                await registry.discover("writer", version="1")
            with pytest.raises(RegistryInputError, match="version is 'new'"):
                await registry.discover(capability="write", version="new")

    run(scene())


class Deaf(Helper):
    """Cannot be asked how it is."""

    def status_snapshot(self) -> dict[str, Any]:
        raise RuntimeError("no comment")


class Forgetful(Helper):
    async def import_state(self, state: dict[str, Any]) -> None:
        raise ValueError("not my state")


def test_errors_of_register_are_kept_for_flush_and_aregister_raises_them(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            registry.register(Deaf(instance="a"))
            registry.register(Helper(instance="b"))
            unplain = Helper(instance="c")
            unplain.state = {"odd": object()}
            registry.register(unplain)
            assert await listed(registry) == {"b": True}, "one that fails holds up nobody"
            with pytest.raises(
                AgentRegistryError, match=r"agent helper:a cannot say how it is.*no comment"
            ) as caught:
                await registry.flush()
            assert "helper:c is not plain JSON data" in caught.value.__notes__[0]
            await registry.flush()  # told once
            with pytest.raises(AgentRegistryError, match="no comment"):
                await registry.aregister(Deaf(instance="a"))

    run(scene())


def test_an_agent_that_does_not_take_its_state_is_not_registered_and_the_state_stays(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            first, registry = Helper(instance="a"), there.registry()
            first.state = {"x": 1}
            await registry.aregister(first)
            with pytest.raises(AgentRegistryError, match="did not take its state back"):
                await there.registry().aregister(Forgetful(instance="a"))
            found = await registry.get(A)
            assert found is not None and found["state"] == {"x": 1}

    run(scene())


def test_one_that_stops_answering_keeps_its_last_record(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry(heartbeat_ttl_s=30)
            agent = Helper(instance="a")
            await registry.aregister(agent)
            await registry.aregister(Helper(instance="b"))
            agent.state = {"odd": object()}
            await there.pass_time(31)
            await registry.beat()
            assert await listed(registry) == {"a": True, "b": True}

    run(scene())


@pytest.mark.parametrize("bad", ["", "a:b", "a\nb", "x" * 600], ids=["empty", "colon", "newline", "long"])
def test_names_that_no_key_can_be_made_of_are_refused_at_once(here: Here, bad: str) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            with pytest.raises(RegistryInputError, match="expected 1 to 512 printable characters"):
                registry.register(Helper(bad))
            with pytest.raises(RegistryInputError):
                registry.deregister(AgentId(type="helper", instance=bad))
            assert await registry.list_registered() == []

    run(scene())


def test_glob_characters_are_letters_like_others(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            registry.register(Helper("h*lp[e]r", "?"))
            registry.register(Helper("helper", "a"))
            registry.deregister(AgentId(type="h*lp[e]r", instance="?"))
            assert await listed(registry) == {"a": True}

    run(scene())


def test_what_is_no_agent_is_refused() -> None:
    async def scene() -> None:
        async with place("memory", str) as there:
            with pytest.raises(RegistryInputError, match="object is not an agent; expected agent_id"):
                there.registry().register(object())  # type: ignore[arg-type]
            mistaken = Helper()
            mistaken.agent_id = "helper:a"  # type: ignore[assignment]
            with pytest.raises(RegistryInputError, match="agent_id is 'helper:a'; expected an AgentId"):
                there.registry().register(mistaken)

    run(scene())


@pytest.mark.parametrize("capabilities", [[{"name": ""}], [{"name": "x", "version": "new"}], [{}]], ids=str)
def test_a_bad_capability_is_named(capabilities: list[Any]) -> None:
    async def scene() -> None:
        async with place("memory", str) as there:
            with pytest.raises(RegistryInputError, match="capability"):
                await there.registry().aregister(Helper(capabilities=capabilities))

    run(scene())


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_ttl_s": 1, "heartbeat_interval_s": 1},
        {"heartbeat_ttl_s": 0},
        {"heartbeat_interval_s": -1},
        {"dead_retention_s": -1},
    ],
    ids=str,
)
def test_times_that_make_no_sense_are_refused(here: Here, options: dict[str, Any]) -> None:
    async def scene() -> None:
        async with here() as there:
            with pytest.raises(RegistryInputError):
                there.registry(**options)

    run(scene())


def test_the_interval_leaves_room_for_two_lost_heartbeats(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            assert there.registry().heartbeat_interval_s == 10.0
            assert there.registry(heartbeat_ttl_s=1).heartbeat_interval_s == pytest.approx(1 / 3)

    run(scene())


def test_registering_without_a_loop_waits_for_one() -> None:
    from afl.coordination.memory_registry import InMemoryAgentRegistry

    registry = InMemoryAgentRegistry()
    registry.register(Helper(instance="a"))
    with pytest.raises(AgentRegistryError, match="running event loop"):
        registry.start_heartbeats()

    assert asyncio.run(listed(registry)) == {"a": True}


async def received(events: AsyncIterator[AgentEvent], count: int) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    while len(found) < count:
        event = await anext(events)
        found.append((event.event, event.agent))
    return found


def test_events_tell_of_changes_only(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry, agent = there.registry(enable_events=True), Helper(instance="a")
            async with registry.watch() as events:
                await registry.aregister(agent)
                for _ in range(3):  # its counters grow; that is no change
                    await registry.beat()
                agent.status = "busy"
                await registry.beat()
                await registry.beat()
                await registry.aderegister(A)
                await registry.aderegister(A)
                await registry.aregister(Helper(instance="b"))
                assert (await anext(events)).status == {"status": "idle"}
                changed = await anext(events)
                assert (changed.event, changed.agent_id) == ("status_changed", A)
                assert (changed.previous_status, changed.status) == ({"status": "idle"}, {"status": "busy"})
                assert await received(events, 2) == [("deregistered", "helper:a"), ("registered", "helper:b")]

    run(scene())


def test_a_death_is_told_once_whoever_finds_it_and_a_revival_too(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            mortal = there.registry(enable_events=True, heartbeat_ttl_s=30)
            live = [there.registry(enable_events=True, heartbeat_ttl_s=30) for _ in range(3)]
            await mortal.aregister(Helper(instance="a"))
            await there.pass_time(31)
            async with live[0].watch() as events:
                for _ in range(2):
                    for registry in live:
                        await registry.beat()
                    await there.pass_time(31)
                await mortal.beat()
                await mortal.aderegister(A)
                assert await received(events, 3) == [
                    ("died", "helper:a"),
                    ("revived", "helper:a"),
                    ("deregistered", "helper:a"),
                ]

    run(scene())


def test_without_enable_events_nothing_is_told(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            quiet, loud = there.registry(), there.registry(enable_events=True)
            async with loud.watch() as events:
                await quiet.aregister(Helper(instance="a"))
                await quiet.aderegister(A)
                await loud.aregister(Helper(instance="b"))
                assert await received(events, 1) == [("registered", "helper:b")]

    run(scene())


class Recoverer:
    """Stands for a coordinator; keeps whom it was asked about."""

    def __init__(self) -> None:
        self.asked: list[AgentId | None] = []

    async def recover_pending(self, agent_id: AgentId | None = None) -> int:
        self.asked.append(agent_id)
        return 2


def test_every_heartbeat_looks_after_the_dead(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            asked = Recoverer()
            mortal = there.registry(heartbeat_ttl_s=30, dead_retention_s=100)
            live = [
                there.registry(asked, heartbeat_ttl_s=30, dead_retention_s=100)  # type: ignore[arg-type]
                for _ in range(2)
            ]
            await mortal.aregister(Helper(instance="a"))
            await live[0].aregister(Helper(instance="b"))
            assert [await registry.beat() for registry in live] == [0, 0]
            await there.pass_time(20)
            await live[0].beat()
            await there.pass_time(20)
            assert [await registry.beat() for registry in live] == [2, 0], "one of them, once per TTL"
            await there.pass_time(31)
            assert [await registry.beat() for registry in live] == [2, 0], "again, while it is listed"
            assert asked.asked == [A, A]
            await there.pass_time(100)
            await live[0].beat()
            await there.pass_time(31)
            assert await live[1].beat() in (0, 2), "b may have died meanwhile"
            assert asked.asked.count(A) == 2, "what is forgotten is looked after no more"

    run(scene())


def test_a_heartbeat_under_way_does_not_bring_back_who_left(here: Here) -> None:
    async def scene() -> None:
        async with here() as there:
            registry = there.registry()
            gate, asked = asyncio.Event(), asyncio.Event()

            class Slow(Helper):
                async def export_state(self) -> dict[str, Any]:
                    if asked_to_wait:
                        asked.set()
                        await gate.wait()
                    return {}

            asked_to_wait: list[bool] = []
            await registry.aregister(Slow(instance="a"))
            asked_to_wait.append(True)
            beating = asyncio.create_task(registry.beat())
            await asked.wait()
            await registry.aderegister(A)
            gate.set()
            await beating
            assert await listed(registry) == {}

    run(scene())
