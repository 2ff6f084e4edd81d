"""Bad input: a named error, or a result with the reason, and nothing stored."""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from support.post_office import ANN, BOB, Office, Post, drained, letter, must_receive

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import (
    AgentNameError,
    CoordinatorClosed,
    CoordinatorInputError,
    CoordinatorSettingError,
    MessageCoordinatorError,
)
from afl.coordination.models import AgentId, AgentMessage, FailureType, MessageType
from afl.kernel.errors import AgentFlowError, InputError, SettingError

Act = Callable[[QueueCoordinator], Coroutine[Any, Any, Any]]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "payload",
    [
        {"x": object()},
        {"x": {1, 2}},
        {"x": b"bytes"},
        {"x": datetime.now(UTC)},
        {"x": math.nan},
        {"x": [-math.inf]},
        {"x": "\ud800"},
        {"x": {("a", "b"): 1}},
        {"x": nested(100_000)},
    ],
    ids=lambda payload: f"{type(payload['x']).__name__}",
)
def test_a_payload_that_is_no_json_is_refused(office: Office, payload: dict[str, Any]) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        message = letter()
        message.payload = payload
        result = await coordinator.send_message(ANN, BOB, message)
        assert not result.delivered
        assert result.error is not None and result.error.startswith("payload is not plain JSON data: ")
        results = await coordinator.broadcast_message(ANN, message, [BOB, ANN])
        assert [each.delivered for each in results] == [False, False]
        assert await coordinator.queues() == []
        counted = coordinator.metrics.snapshot()  # type: ignore[attr-defined]
        assert counted["delivery"]["delivered_error"] == 3

    office(story)


def test_a_payload_that_is_too_large_is_refused(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(max_payload_bytes=100)
        fits, too_much = {"x": "a" * 92}, {"x": "a" * 93}
        assert (await coordinator.send_message(ANN, BOB, letter(1, payload=fits))).delivered
        result = await coordinator.send_message(ANN, BOB, letter(2, payload=too_much))
        assert (result.delivered, result.error) == (False, "payload is 101 bytes, more than the limit of 100")
        assert await drained(coordinator) == ["letter-1"]

    office(story)


def test_nesting_that_can_be_written_can_be_read(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        payload = {"x": nested(400)}
        assert (await coordinator.send_message(ANN, BOB, letter(payload=payload))).delivered
        assert (await must_receive(coordinator)).message.payload == payload

    office(story)


@pytest.mark.parametrize(
    "agent",
    [
        AgentId(type="a:b"),
        AgentId(type="a", instance="b:c"),
        AgentId(type=""),
        AgentId(type="a", instance=""),
        AgentId(type="a" * 513),
        AgentId(type="new\nline"),
    ],
)
def test_names_that_no_key_can_be_made_of(office: Office, agent: AgentId) -> None:
    acts: list[Act] = [
        lambda c: c.send_message(ANN, agent, letter()),
        lambda c: c.send_message(agent, BOB, letter()),
        lambda c: c.broadcast_message(ANN, letter(), [BOB, agent]),
        lambda c: c.receive(agent),
        lambda c: c.receive(agent, wait=1),
        lambda c: c.ack(agent, "res_" + "0" * 16),
        lambda c: c.nack(agent, "res_" + "0" * 16),
        lambda c: c.extend(agent, "res_" + "0" * 16),
        lambda c: c.recover_pending(agent),
        lambda c: c.statistics(agent),
        lambda c: c.dead_letters.list(agent),
        lambda c: c.request(ANN, agent, {}),
    ]

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for act in acts:
            with pytest.raises(
                AgentNameError, match="expected 1 to 512 printable characters without a colon"
            ):
                await act(coordinator)
        assert await coordinator.queues() == []

    office(story)


def test_glob_characters_in_names_are_names(office: Office) -> None:
    odd = [AgentId(type="*", instance="?"), AgentId(type="[a-z]", instance="\\*"), AgentId(type="{x}")]

    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        for agent in [*odd, BOB]:
            await coordinator.send_message(ANN, agent, letter())
            await coordinator.receive(agent, 10)
        await post.pass_time(10, *odd)
        assert [await coordinator.recover_pending(agent) for agent in odd] == [1, 1, 1]
        assert sorted(str(agent) for agent in await coordinator.queues()) == sorted(
            str(a) for a in [*odd, BOB]
        )

    office(story)


@pytest.mark.parametrize(
    "act",
    [
        lambda c: c.receive(BOB, -1),
        lambda c: c.receive(BOB, math.nan),
        lambda c: c.receive(BOB, math.inf),
        lambda c: c.receive(BOB, "5"),
        lambda c: c.receive(BOB, True),
        lambda c: c.receive(BOB, wait=-0.1),
        lambda c: c.receive_batch(BOB, 0),
        lambda c: c.receive_batch(BOB, 1001),
        lambda c: c.receive_batch(BOB, 1.5),
        lambda c: c.extend(BOB, "res_" + "0" * 16, -5),
        lambda c: c.send_message(ANN, BOB, letter(), delay_seconds=-1),
        lambda c: c.send_message(ANN, BOB, letter(), ttl_seconds=-1),
        lambda c: c.send_message(ANN, "bob", letter()),
        lambda c: c.send_message(ANN, BOB, letter("x" * 600)),
        lambda c: c.ack(BOB, None),
        lambda c: c.nack(BOB, 17),
        lambda c: c.nack(BOB, "res_" + "0" * 16, "sometimes"),
        lambda c: c.nack(BOB, "res_" + "0" * 16, FailureType.TRANSIENT, 5),
        lambda c: c.request(ANN, BOB, {}, timeout=-1),
        lambda c: c.dead_letters.list(BOB, limit=0),
        lambda c: c.audit_trail(BOB, 0),
    ],
)
def test_wrong_values_have_a_named_error(office: Office, act: Act) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        with pytest.raises(CoordinatorInputError) as caught:
            await act(coordinator)
        for kind in (MessageCoordinatorError, InputError, AgentFlowError):
            assert isinstance(caught.value, kind)
        assert await coordinator.queues() == []

    office(story)


@pytest.mark.parametrize(
    "token", ["", "x", "res_", "res_" + "g" * 16, "res_" + "é" * 16, "x" * 20, "r" * 10_000]
)
def test_unknown_tokens_do_nothing(office: Office, token: str) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        await coordinator.send_message(ANN, BOB, letter())
        await must_receive(coordinator)
        assert not await coordinator.ack(BOB, token)
        assert not await coordinator.nack(BOB, token)
        assert not await coordinator.extend(BOB, token, 1)
        assert await coordinator.release(BOB, [token]) == [False]
        assert (await coordinator.statistics(BOB)).in_flight == 1

    office(story)


@pytest.mark.parametrize(
    "wrong",
    [
        {"queue_size": 0},
        {"queue_size": 1.5},
        {"queue_size": True},
        {"retry_attempts": -1},
        {"backoff_base": -1.0},
        {"backoff_factor": 0.5},
        {"backoff_max": math.nan},
        {"jitter": 1.1},
        {"aging": -1},
        {"dedup_window": "60"},
        {"fallback_interval": 0},
        {"no_such_option": 1},
    ],
)
def test_wrong_options_change_nothing(office: Office, wrong: dict[str, Any]) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator(retry_attempts=7)
        before = coordinator.options
        with pytest.raises(CoordinatorSettingError, match=next(iter(wrong))) as caught:
            await coordinator.configure(backoff_max=1.0) if "backoff_max" not in wrong else None
            await coordinator.configure(**wrong)
        assert isinstance(caught.value, SettingError)
        assert coordinator.options.retry_attempts == before.retry_attempts
        with pytest.raises(CoordinatorSettingError):
            post.coordinator(**wrong)

    office(story)


def test_configure_changes_what_is_given(office: Office) -> None:
    async def story(post: Post) -> None:
        coordinator = post.coordinator()
        assert (coordinator.options.queue_size, coordinator.options.retry_attempts) == (10_000, 3)
        assert (coordinator.options.backoff_base, coordinator.options.backoff_factor) == (1.0, 2.0)
        assert coordinator.options.backoff_max == 30.0
        await coordinator.configure(queue_size=5, backoff_base=2)
        assert (coordinator.options.queue_size, coordinator.options.backoff_base) == (5, 2)
        assert coordinator.options.retry_attempts == 3

    office(story)


def test_a_closed_coordinator_says_so(office: Office) -> None:
    async def story(post: Post) -> None:
        async with post.coordinator() as coordinator:
            await coordinator.send_message(ANN, BOB, letter())
        for act in (coordinator.receive(BOB), coordinator.send_message(ANN, BOB, letter())):
            with pytest.raises(CoordinatorClosed):
                await act
        await coordinator.close()
        assert await drained(post.coordinator()) == ["letter-1"]

    office(story)


def test_ids_have_at_least_six_characters() -> None:
    with pytest.raises(ValidationError, match="message_id"):
        AgentMessage(message_id="12345", sender=ANN, recipient=BOB, message_type=MessageType.EVENT)
