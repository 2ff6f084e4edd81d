"""Errands for agents that take messages: an errand is one request, and the message's id is the errand's id.

The step's parameters are the payload; the response's payload is what comes back. Responses come into one queue that
all bridges of a project share, and are acknowledged when the step has gone on: one that its reader died with is read
by another. A request that became a dead letter fails its step, and so does a response that is only an `error`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from afl.bridges.answering import Answerer, agent_of
from afl.bridges.bridge import Bridge, Ending, Errand, Host, NotReady, Refused
from afl.coordination.connections import open_client
from afl.coordination.consumer import Consumer
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import CoordinatorInputError, MessageCoordinatorError
from afl.coordination.memory_broker import InMemoryMessageCoordinator
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    DeadLetter,
    MessagePriority,
    MessageType,
    ReceivedMessage,
    RoutingKey,
)
from afl.coordination.redis_broker import RedisMessageCoordinator
from afl.kernel.backoff import Backoff
from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreError
from afl.runtime.monitoring.tracing import traceparent_of_task

_log = logging.getLogger(__name__)

SENDER = "afl-bridge"  # whose queue the responses come into; its instance is the project
DEDUP_SECONDS = 7 * 86_400.0  # how long the other side knows that it has seen an errand
_YOUNG_MS = DEDUP_SECONDS * 1000 * 0.9  # within it an errand may be sent again without being doubled
_LETTERS = 100
_RETRY = Backoff(0.2, cap=5.0)
_TOO_MUCH_FOR_NOW = "queue full"
_LEVELS = (MessagePriority.HIGH, MessagePriority.NORMAL, MessagePriority.LOW)


def memory() -> QueueCoordinator:
    """Queues of this process."""
    return InMemoryMessageCoordinator(dedup_window=DEDUP_SECONDS)


def server(url: str, prefix: str = "ao") -> tuple[QueueCoordinator, Callable[[], Awaitable[None]]]:
    """Queues of a Redis server, and what ends the connection."""
    redis = open_client(url)
    return RedisMessageCoordinator(redis, prefix, dedup_window=DEDUP_SECONDS), redis.aclose


class MessageBridge(Bridge):
    """`with Message("translator")`. `answering` are the functions of this process that answer, by agent.

    `mine` says whether this process is the one to send to an agent; always, where there is a server for all.
    """

    kind = "message"
    renews = (
        True  # a server may lose its last second with its power; what is sent again is known there, or is new
    )

    def __init__(
        self,
        host: Host,
        coordinator: QueueCoordinator,
        *,
        project: str = "main",
        answering: Mapping[str, Callable[..., Any]] | None = None,
        visible_seconds: float = 30.0,
        concurrency: int = 5,
        mine: Callable[[str], bool] | None = None,
        done: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._host = host
        self._coordinator = coordinator
        self._me = AgentId(type=SENDER, instance=project)
        self._mine = mine
        self._done = done
        self._sent: set[str] = set()  # by this process, and still open
        self._consumers = [
            Consumer(
                coordinator,
                agent_of(agent),
                Answerer(agent, function),
                concurrency=concurrency,
                visibility_timeout=visible_seconds,
            )
            for agent, function in (answering or {}).items()
        ]
        self._consumers.append(
            Consumer(coordinator, self._me, self._receive, concurrency=16, visibility_timeout=visible_seconds)
        )
        for consumer in self._consumers:
            consumer.start()

    async def begin(self, errand: Errand) -> None:
        if self._mine is not None and not await asyncio.to_thread(self._mine, errand.to):
            raise NotReady(
                f"no function of a live process answers for {errand.to}: `afl agent MODULE` with "
                f'@answers("{errand.to}") does, and with AFL_REDIS any process that reaches the server'
            )
        if self._may_be_forgotten(errand):
            return
        try:
            result = await self._coordinator.send_message(
                self._me,
                agent_of(errand.to),
                self._request(errand),
                ttl_seconds=None if errand.seconds_left is None else max(errand.seconds_left, 0.001),
            )
        except CoordinatorInputError as error:
            raise Refused(str(error), "MessageRefused") from error
        except MessageCoordinatorError as error:
            raise NotReady(str(error)) from error
        if not result.delivered:
            why = f"the queue of {errand.to} does not take the message: {result.error}"
            raise NotReady(why) if result.error == _TOO_MUCH_FOR_NOW else Refused(why, "MessageRefused")
        self._sent.add(errand.id)

    def _may_be_forgotten(self, errand: Errand) -> bool:
        """Whether the request was sent so long ago that, sent again, it would be another one over there.

        A task is `updated` when an attempt of it can begin. Queues of this process know what this process has sent.
        """
        old = wall_ms() - errand.task.updated > _YOUNG_MS
        return old and (self._mine is None or errand.id in self._sent)

    async def look(self, errands: Sequence[Errand]) -> list[Ending]:
        """Dead letters; responses come by themselves, unless their readers died with them again and again."""
        by_agent: dict[str, dict[str, Errand]] = defaultdict(dict)
        for errand in errands:
            by_agent[errand.to][errand.id] = errand
        mine = {errand.id: errand for errand in errands}
        endings = [
            _answered(mine[message.correlation_id or ""], message.payload)
            for letter in await self._letters(self._me)
            if letter.queue_message is not None
            and (message := letter.queue_message.message).correlation_id in mine
        ]
        for agent, open_ones in by_agent.items():
            for letter in await self._letters(agent_of(agent)):
                if letter.message_id in open_ones:
                    endings.append(_dead(agent, str(letter.message_id), letter))
        return endings

    async def keep(self, errands: Sequence[Errand]) -> None:
        """Go on being the one who sends to these agents."""
        self._sent &= {errand.id for errand in errands}
        for agent in {errand.to for errand in errands}:
            if self._mine is not None:
                await asyncio.to_thread(self._mine, agent)

    async def cancel(self, errand_id: str, to: str) -> bool:
        try:
            return await self._coordinator.withdraw(agent_of(to), errand_id)
        except CoordinatorInputError:  # a name that no queue can have: it was refused
            return False

    async def close(self) -> None:
        for consumer in self._consumers:
            with suppress(MessageCoordinatorError):  # the server is away: what is in hand returns by itself
                await consumer.stop(grace=0.0)
        await self._coordinator.close()
        if self._done is not None:
            await self._done()

    def _request(self, errand: Errand) -> AgentMessage:
        level = (errand.task.bridge or {}).get("priority", MessagePriority.NORMAL.value)
        return AgentMessage(
            message_id=errand.id,
            sender=self._me,
            recipient=agent_of(errand.to),
            message_type=MessageType.REQUEST,
            payload=errand.parameters,
            priority=next((each for each in _LEVELS if level >= each.value), MessagePriority.LOW),
            routing=RoutingKey(
                topic=errand.task.name, tags=[f"traceparent={traceparent_of_task(errand.task)}"]
            ),
            correlation_id=errand.id,
        )

    async def _receive(self, received: ReceivedMessage) -> None:
        """A response; it is acknowledged when this returns."""
        message = received.message
        if message.message_type is not MessageType.RESPONSE or message.correlation_id is None:
            _log.warning("a message of %s is no response: %s", message.sender, message.message_id)
            return
        failures = 0
        while True:
            try:
                errand = await self._host.errand(message.correlation_id)
                if errand is not None:
                    await self._host.settle(_answered(errand, message.payload))
                return
            except StoreError as error:  # to give it back would count as an attempt, and there are few
                failures += 1
                _log.warning("an answer waits for the store: %s", error)
                await asyncio.sleep(_RETRY.delay(failures))

    async def _letters(self, agent: AgentId) -> list[DeadLetter]:
        try:
            if not (await self._coordinator.statistics(agent)).dead:
                return []
        except CoordinatorInputError:  # a name that no queue can have
            return []
        found: list[DeadLetter] = []
        while page := await self._coordinator.dead_letters.list(agent, _LETTERS, len(found)):
            found += page
        return found


def _answered(errand: Errand, payload: dict[str, Any]) -> Ending:
    error = payload.get("error")
    declared = {field.name for field in errand.returns or ()}
    if error is None or "error" in declared:
        return Ending(errand.id, result=payload)
    if isinstance(error, Mapping):
        return Ending(
            errand.id,
            error=str(error.get("message") or error),
            kind=str(error.get("type") or "MessageFailed"),
        )
    return Ending(errand.id, error=str(error), kind="MessageFailed")


def _dead(agent: str, errand_id: str, letter: DeadLetter) -> Ending:
    last = letter.queue_message.last_error if letter.queue_message is not None else None
    attempts = letter.queue_message.delivery_attempts if letter.queue_message is not None else 0
    times = f" after {attempts} attempts" if attempts > 1 else ""
    return Ending(
        errand_id, error=f"{agent} did not answer{times}: {last or letter.reason}", kind="DeadLetter"
    )
