"""External tasks for agents that receive messages: a task is one request, whose message id is the id of the task.

The parameters of the step are the payload; the payload of the response is the result. Responses arrive in one queue
that all bridges of a project share, and are acknowledged when the outcome is stored: if a reader dies, another reads
the response. A request that becomes a dead letter fails its step, as does a response that is only an `error`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from afl.bridges.answering import AnswerHandler, agent_of
from afl.bridges.bridge import Bridge, ExternalTask, Host, NotReady, Outcome, Refused
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

SENDER = "afl-bridge"  # the queue of the responses; its instance is the project
DEDUP_SECONDS = 7 * 86_400.0  # how long a request that is sent again is recognized as a duplicate
_YOUNG_MS = DEDUP_SECONDS * 1000 * 0.9  # within it a task may be sent again without being duplicated
_LETTERS = 100
_RETRY = Backoff(0.2, cap=5.0)
_TOO_MUCH_FOR_NOW = "queue full"
_LEVELS = (MessagePriority.HIGH, MessagePriority.NORMAL, MessagePriority.LOW)


def memory() -> QueueCoordinator:
    """Queues of this process."""
    return InMemoryMessageCoordinator(dedup_window=DEDUP_SECONDS)


def server(url: str, prefix: str = "ao") -> tuple[QueueCoordinator, Callable[[], Awaitable[None]]]:
    """Queues of a Redis server, and the call that closes the connection."""
    redis = open_client(url)
    return RedisMessageCoordinator(redis, prefix, dedup_window=DEDUP_SECONDS), redis.aclose


class MessageBridge(Bridge):
    """`with Message("translator")`. `answering` are the functions of this process that answer, by agent.

    `mine` says whether this process sends to an agent; with a server, every process does.
    """

    kind = "message"
    renews = True  # a server may lose its last second in a power failure; duplicates are dropped there

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
        self._sent: set[str] = set()  # sent by this process, and still open
        self._consumers = [
            Consumer(
                coordinator,
                agent_of(agent),
                AnswerHandler(agent, function),
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

    async def start(self, external: ExternalTask) -> None:
        if self._mine is not None and not await asyncio.to_thread(self._mine, external.to):
            raise NotReady(
                f"no function of a live process answers for {external.to}: `afl agent MODULE` with "
                f'@answers("{external.to}") does, and with AFL_REDIS any process that reaches the server'
            )
        if self._is_past_dedup_window(external):
            return
        try:
            result = await self._coordinator.send_message(
                self._me,
                agent_of(external.to),
                self._request(external),
                ttl_seconds=None if external.seconds_left is None else max(external.seconds_left, 0.001),
            )
        except CoordinatorInputError as error:
            raise Refused(str(error), "MessageRefused") from error
        except MessageCoordinatorError as error:
            raise NotReady(str(error)) from error
        if not result.delivered:
            why = f"the queue of {external.to} does not take the message: {result.error}"
            raise NotReady(why) if result.error == _TOO_MUCH_FOR_NOW else Refused(why, "MessageRefused")
        self._sent.add(external.id)

    def _is_past_dedup_window(self, external: ExternalTask) -> bool:
        """Whether the request was sent so long ago that a repetition would not be recognized as a duplicate.

        A task is `updated` when an attempt can start. In-memory queues know what this process has sent.
        """
        old = wall_ms() - external.task.updated > _YOUNG_MS
        return old and (self._mine is None or external.id in self._sent)

    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        """Outcomes from dead letters; responses are received, unless their readers died too often."""
        by_agent: dict[str, dict[str, ExternalTask]] = defaultdict(dict)
        for external in externals:
            by_agent[external.to][external.id] = external
        mine = {external.id: external for external in externals}
        outcomes = [
            _answered(mine[message.correlation_id or ""], message.payload)
            for letter in await self._letters(self._me)
            if letter.queue_message is not None
            and (message := letter.queue_message.message).correlation_id in mine
        ]
        for agent, open_ones in by_agent.items():
            for letter in await self._letters(agent_of(agent)):
                if letter.message_id in open_ones:
                    outcomes.append(_dead(agent, str(letter.message_id), letter))
        return outcomes

    async def retain(self, externals: Sequence[ExternalTask]) -> None:
        """Keep the claim to send to these agents."""
        self._sent &= {external.id for external in externals}
        for agent in {external.to for external in externals}:
            if self._mine is not None:
                await asyncio.to_thread(self._mine, agent)

    async def cancel(self, external_id: str, to: str) -> bool:
        try:
            return await self._coordinator.withdraw(agent_of(to), external_id)
        except CoordinatorInputError:  # not a valid queue name: it was refused
            return False

    async def close(self) -> None:
        for consumer in self._consumers:
            with suppress(
                MessageCoordinatorError
            ):  # the server is unavailable: reserved messages return by themselves
                await consumer.stop(grace=0.0)
        await self._coordinator.close()
        if self._done is not None:
            await self._done()

    def _request(self, external: ExternalTask) -> AgentMessage:
        level = (external.task.bridge or {}).get("priority", MessagePriority.NORMAL.value)
        return AgentMessage(
            message_id=external.id,
            sender=self._me,
            recipient=agent_of(external.to),
            message_type=MessageType.REQUEST,
            payload=external.parameters,
            priority=next((each for each in _LEVELS if level >= each.value), MessagePriority.LOW),
            routing=RoutingKey(
                topic=external.task.name, tags=[f"traceparent={traceparent_of_task(external.task)}"]
            ),
            correlation_id=external.id,
        )

    async def _receive(self, received: ReceivedMessage) -> None:
        """Handle a response; it is acknowledged when this returns."""
        message = received.message
        if message.message_type is not MessageType.RESPONSE or message.correlation_id is None:
            _log.warning("a message of %s is not a response: %s", message.sender, message.message_id)
            return
        failures = 0
        while True:
            try:
                external = await self._host.find(message.correlation_id)
                if external is not None:
                    await self._host.settle(_answered(external, message.payload))
                return
            except StoreError as error:  # a nack would count as an attempt, and there are few
                failures += 1
                _log.warning("a response waits for the store: %s", error)
                await asyncio.sleep(_RETRY.delay(failures))

    async def _letters(self, agent: AgentId) -> list[DeadLetter]:
        try:
            if not (await self._coordinator.statistics(agent)).dead:
                return []
        except CoordinatorInputError:  # not a valid queue name
            return []
        found: list[DeadLetter] = []
        while page := await self._coordinator.dead_letters.list(agent, _LETTERS, len(found)):
            found += page
        return found


def _answered(external: ExternalTask, payload: dict[str, Any]) -> Outcome:
    error = payload.get("error")
    declared = {field.name for field in external.returns or ()}
    if error is None or "error" in declared:
        return Outcome(external.id, result=payload)
    if isinstance(error, Mapping):
        return Outcome(
            external.id,
            error=str(error.get("message") or error),
            kind=str(error.get("type") or "MessageFailed"),
        )
    return Outcome(external.id, error=str(error), kind="MessageFailed")


def _dead(agent: str, external_id: str, letter: DeadLetter) -> Outcome:
    last = letter.queue_message.last_error if letter.queue_message is not None else None
    attempts = letter.queue_message.delivery_attempts if letter.queue_message is not None else 0
    times = f" after {attempts} attempts" if attempts > 1 else ""
    return Outcome(
        external_id, error=f"{agent} did not answer{times}: {last or letter.reason}", kind="DeadLetter"
    )
