"""Anything on any subject of the bus: listeners, tools and workers pass it over, and go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from support.eventually import PATIENCE_SECONDS
from support.properties import tries
from support.turns_office import Office, Place, office, told_first

from afl.kernel.database import connect
from afl.kernel.notify import open_notifier
from afl.kernel.notify.nats import SUBJECT as DOORBELL
from afl.turns.protocol import headers as names
from afl.turns.protocol.subjects import PREFIX
from afl.turns.tools.service import ToolService

ODD: list[Any] = [
    "",
    "a\0b",
    "a\nb",
    "x" * 5_000,
    -1,
    2**63,
    10**400,
    1.5,
    None,
    True,
    [],
    {},
    ["\0"],
    {"a": "\0"},
]
BYTES = st.one_of(st.binary(max_size=30), st.sampled_from([b"{}", b"[]", b"null", b"\xff", b"[" * 5_000]))
PAYLOAD = {
    "agent_turn_id": "turn_x",
    "agent_id": "ada",
    "status": "success",
    "chunk_type": "content",
    "content": "words",
    "tool_name": "add",
    "after_execution": "suspend",
    "tool_call_card_id": "card_x",
}
HEADERS = {
    names.PROJECT: "PROJECT",
    names.CHANNEL: "public",
    names.AGENT: "ada",
    names.TURN: "turn_x",
    names.EPOCH: "1",
    names.DEPTH: "0",
    names.STEP: "step_x",
    names.TOOL_CALL: "call_x",
    names.TRACE: f"00-{'a' * 32}-{'b' * 16}-01",
    "CG-Timestamp": "1",
}
SUBJECTS = [
    "evt.agent.ada.task",
    "evt.agent.ada.state",
    "evt.agent.a{}b.task",
    "str.agent.ada.chunk",
    "cmd.agent.generic.wakeup",
    "cmd.tool.python.add",
    "cmd.tool.python.what.ever",
]
VALUES = st.sampled_from(["", " ", "\0", "9" * 5_000, "-1", "1.5", "²", "x" * 5_000, "é", "\x7f", "public"])


def spoilt(
    sound: dict[str, Any], odd: st.SearchStrategy[Any], most: int
) -> st.SearchStrategy[dict[str, Any]]:
    bad = st.dictionaries(st.sampled_from(sorted(sound)), odd, max_size=most)
    return bad.map(lambda found: sound | found)


PAYLOADS = st.one_of(
    BYTES, spoilt(PAYLOAD, st.sampled_from(ODD), 2).map(lambda each: json.dumps(each).encode())
)


def add(a: int, b: int) -> int:
    return a + b


class Working:
    """An office on NATS with a worker, a service of tools and somebody who listens, on one event loop."""

    def __init__(self, place: Place, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._place = place
        self.run(self._begin())

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await work

        return self._runner.run(bounded())

    async def _begin(self) -> None:
        self._open = office(self._place)
        self.office: Office = await self._open.__aenter__()
        self.service = ToolService(self.office.engine, self.office.project, [add])
        await self.service.register()
        await self.service.start()
        self.said: list[Any] = []
        self._words = self.office.agents.words("ada", self.said.append)
        await self._words.__aenter__()
        await self.office.hire(told_first([("add", {"a": 1, "b": 2})]), poll_seconds=0.05)
        await self.office.agents.define("ada", tools=["add"])
        self.stranger = Client()
        await self.stranger.connect(self._place.bus)

    async def tell(self, subject: str, headers: dict[str, str], data: bytes) -> None:
        given = {
            name: self.office.project if value == "PROJECT" else value for name, value in headers.items()
        }
        try:
            await self.stranger.publish(
                f"{PREFIX}.{self.office.project}.public.{subject}", data, headers=given
            )
        except ValueError:  # the client itself refuses it
            return

    async def goes_on(self) -> None:
        assert (await self.office.agents.ask("ada", "go")).text == "3"
        assert all(isinstance(words, str) for words in self.said)

    async def close(self) -> None:
        await self.stranger.close()
        await self._words.__aexit__(None, None, None)
        await self.service.stop()
        await self._open.__aexit__(None, None, None)


@pytest.fixture
def working(empty_postgres_url: str, nats_url: str) -> Iterator[Working]:
    with asyncio.Runner() as runner:
        working = Working(Place(empty_postgres_url, nats_url), runner)
        yield working
        working.run(working.close())


def test_any_message_is_passed_over(working: Working, caplog: pytest.LogCaptureFixture) -> None:
    @tries(250)
    @given(st.sampled_from(SUBJECTS), spoilt(HEADERS, VALUES, 2), PAYLOADS)
    def is_passed_over(subject: str, headers: dict[str, str], data: bytes) -> None:
        working.run(working.tell(subject, headers, data))

    is_passed_over()
    working.run(working.goes_on())
    defects = [each for each in caplog.records if each.exc_info]
    assert [each.getMessage() for each in defects] == []


def test_any_ring_of_the_doorbell_is_a_ring_at_most(nats_url: str) -> None:
    with (
        asyncio.Runner() as runner,
        connect("memory://") as database,
        open_notifier(database, nats_url) as notifier,
    ):
        stranger = Client()
        runner.run(stranger.connect(nats_url))
        with notifier.subscribe(["a topic"]) as subscription:
            assert notifier.connected(PATIENCE_SECONDS)

            @tries(100)
            @given(st.one_of(BYTES, st.lists(BYTES, max_size=3).map(b"\n".join)))
            def is_passed_over(data: bytes) -> None:
                runner.run(stranger.publish(DOORBELL, data))

            is_passed_over()
            runner.run(stranger.publish(DOORBELL, b"a topic"))
            runner.run(stranger.flush())
            assert subscription.wait(PATIENCE_SECONDS)
        runner.run(stranger.close())
