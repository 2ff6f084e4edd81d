"""Steps `with Message(...)`: one message per task, answered by functions in this process or behind a server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from redis.asyncio import Redis
from support.crossings import Crossing, Gate
from support.eventually import eventually

from afl.bridges.bridge import ExternalTask, Outcome
from afl.bridges.message import DEDUP_SECONDS, SENDER, MessageBridge
from afl.bridges.service import BridgeService
from afl.coordination import AgentId, AgentMessage, InMemoryMessageCoordinator, PermanentFailure
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.memory_broker import MemoryWorld
from afl.coordination.models import AuditEntry, MessagePriority
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.operations.run.control import cancel
from afl.runtime.sqlite_store import SqliteStore

SOURCE = """
event facet Translate(text: String, languages: [String]) => (
    text: String, letters: Long
) with Message("translator"MORE) POLICY
workflow W() => (text: String, letters: Long) andThen {
    done = Translate(text = "hello", languages = ["fr"])
    yield W(text = done.text, letters = done.letters)
}
"""
TRANSLATOR = AgentId(type="translator")
QUICK: dict[str, Any] = {"retry_attempts": 1, "backoff_base": 0.01, "fallback_interval": 0.2}


def source(more: str = "", policy: str = "") -> str:
    return SOURCE.replace("MORE", more).replace("POLICY", policy)


@dataclass
class Office:
    """Queues, in memory or on a server, and hosts of bridges that share them."""

    crossing: Crossing
    url: str | None
    prefix: str
    world: MemoryWorld

    def host(self, **answering: Callable[..., Any]) -> BridgeService:
        return self.crossing.host(message=lambda host: self.bridge(host, answering))

    def bridge(self, host: Any, answering: dict[str, Callable[..., Any]]) -> MessageBridge:
        redis = Redis.from_url(self.url) if self.url is not None else None
        return MessageBridge(
            host,
            self._coordinator(redis),
            answering=answering,
            visible_seconds=1.0,
            done=redis.aclose if redis is not None else None,
        )

    def _coordinator(self, redis: Redis | None) -> QueueCoordinator:
        if redis is None:
            return InMemoryMessageCoordinator(world=self.world, dedup_window=DEDUP_SECONDS, **QUICK)
        return RedisMessageCoordinator(redis, self.prefix, dedup_window=DEDUP_SECONDS, **QUICK)

    def trail(self, agent: AgentId = TRANSLATOR) -> list[AuditEntry]:
        """What happened to the queue of an agent."""

        async def poll() -> list[AuditEntry]:
            redis = Redis.from_url(self.url) if self.url is not None else None
            found = await self._coordinator(redis).audit_trail(agent)
            if redis is not None:
                await redis.aclose()
            return found

        return asyncio.run(poll())

    def sent(self) -> list[str]:
        return [line.message_id for line in self.trail() if line.event == "sent"]


@pytest.fixture(params=["memory", "redis"])
def office(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Office]:
    url: str | None = request.getfixturevalue("redis_url") if request.param == "redis" else None
    store_url = f"sqlite:///{tmp_path}/messages.db"
    store = SqliteStore(store_url)
    with Crossing(store, store_url) as crossing:
        yield Office(crossing, url, f"test-{uuid4().hex}", MemoryWorld())
    store.close()


def test_a_function_answers_and_the_step_goes_on(office: Office) -> None:
    seen: list[AgentMessage] = []

    def translate(text: str, languages: list[str], message: AgentMessage) -> dict[str, object]:
        seen.append(message)
        return {"text": f"{text} in {languages[0]}", "letters": len(text)}

    report = office.crossing.run(source(", priority = 9"), bridges=office.host(translator=translate))
    assert report.outputs == {"text": "hello in fr", "letters": 5}
    (message,) = seen
    assert message.message_id == office.crossing.task(report.run).uuid
    assert message.priority is MessagePriority.HIGH


def test_an_async_function_may_answer_from_another_host(office: Office) -> None:
    async def translate(**given: object) -> dict[str, object]:
        return {"text": "salut", "letters": 5}

    mine = office.host()
    office.host(translator=translate)
    report = office.crossing.run(source(), bridges=mine)
    assert report.outputs == {"text": "salut", "letters": 5}


def test_an_answer_that_does_not_fit_fails_the_step_by_field(office: Office) -> None:
    report = office.crossing.run(source(), bridges=office.host(translator=lambda **given: {"text": 7}))
    assert report.error is not None and report.error.error_type == "ResultError"
    assert "return field 'text': expected String" in report.error.message


def test_a_dead_letter_fails_the_step(office: Office) -> None:
    def translate(**given: object) -> None:
        raise PermanentFailure("no such language")

    report = office.crossing.run(source(), bridges=office.host(translator=translate))
    assert report.error is not None and report.error.error_type == "DeadLetter"
    assert "no such language" in report.error.message


def test_what_fails_is_tried_again_and_then_dead(office: Office) -> None:
    attempts: list[int] = []

    def translate(**given: object) -> dict[str, object]:
        attempts.append(1)
        raise ValueError(f"attempt {len(attempts)}")

    report = office.crossing.run(source(), bridges=office.host(translator=translate))
    assert report.error is not None and "after 2 attempts: ValueError: attempt 2" in report.error.message


def test_a_function_that_stops_an_iteration_has_failed(office: Office) -> None:
    def translate(**given: object) -> dict[str, object]:
        return next(iter(()))

    report = office.crossing.run(source(), bridges=office.host(translator=translate))
    assert report.error is not None and "StopIteration" in report.error.message


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"error": "I am tired"}, "MessageFailed"),
        ({"error": {"message": "I am tired", "type": "Tired"}}, "Tired"),
    ],
)
def test_an_error_for_an_answer_fails_the_step(office: Office, answer: Any, kind: str) -> None:
    report = office.crossing.run(source(), bridges=office.host(translator=lambda **given: answer))
    assert report.error is not None
    assert (report.error.message, report.error.error_type) == ("I am tired", kind)


def test_parameters_that_the_function_does_not_take_are_told(office: Office) -> None:
    def translate(words: str) -> dict[str, object]:
        return {}

    report = office.crossing.run(source(), bridges=office.host(translator=translate))
    assert report.error is not None and "unknown parameter 'text'" in report.error.message


def test_cancel_takes_the_message_back(office: Office) -> None:
    office.host()
    run = office.crossing.submit(source())
    task = office.crossing.task(run)
    eventually(lambda: office.sent() == [task.uuid])
    cancel(office.crossing.store, run)
    eventually(lambda: [line.event for line in office.trail()] == ["sent", "withdrawn"])
    eventually(lambda: office.crossing.is_told(run))


def test_cancel_reaches_who_works_on_it(office: Office) -> None:
    stopped, begun = asyncio.Event(), Gate()

    async def translate(**given: object) -> dict[str, object]:
        begun.entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return {}

    office.host(translator=translate)
    run = office.crossing.submit(source())
    assert begun.entered.wait(60)
    cancel(office.crossing.store, run)
    eventually(stopped.is_set)


def test_a_timeout_ends_the_message_and_another_attempt_is_another_message(office: Office) -> None:
    policy = "with Timeout(ms = 300) with Retry(2, backoff = 10)"
    report = office.crossing.run(source(policy=policy), bridges=office.host())
    assert report.error is not None and report.error.error_type == "Timeout"
    task = office.crossing.task(report.run)
    assert office.sent() == [task.uuid, f"{task.uuid}-1"]
    gone = {"withdrawn", "lapsed"}
    eventually(lambda: sum(line.event in gone for line in office.trail()) == 2, office.trail)


def test_hosts_that_come_and_go_send_one_message_per_task(office: Office) -> None:
    first, second = office.host(), office.host()
    made = [office.crossing.submit(source()) for _ in range(4)]
    eventually(lambda: len(office.sent()) == 4)
    office.crossing.stop(first)
    office.host(translator=lambda **given: {"text": "salut", "letters": 5})
    office.crossing.stop(second)
    for run in made:
        office.crossing.until(run, "completed")
    assert sorted(office.sent()) == sorted(office.crossing.task(run).uuid for run in made)


def test_an_answer_whose_reader_died_is_read_by_the_next(office: Office) -> None:
    """The response is there, and nobody has settled it: as if the host had died in between."""

    class Dying:
        async def find(self, external_id: str) -> ExternalTask | None:
            raise ConnectionError("dead before it was stored")

        async def settle(self, outcome: Outcome) -> None:
            raise ConnectionError("dead before it was stored")

    answering = {"translator": lambda **given: {"text": "salut", "letters": 5}}
    victim = office.crossing.host(message=lambda host: office.bridge(Dying(), answering))
    run = office.crossing.submit(source())
    replies = AgentId(type=SENDER, instance="main")
    eventually(lambda: any(line.event == "sent" for line in office.trail(replies)))
    office.crossing.stop(victim)
    office.host()
    office.crossing.until(run, "completed")


def test_in_memory_without_anybody_who_answers_the_run_pauses_and_says_why(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    store = SqliteStore(url)
    with Crossing(store, url) as crossing:
        report = crossing.run(source(), bridges=crossing.host())
        assert report.status == "PAUSED"
        assert '@answers("translator")' in report.waiting_for[0].why
    store.close()
