"""Which types of messages a coordinator is handed from an agent's queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from uuid import uuid4

from afl.coordination.broker import Broker
from afl.coordination.errors import CoordinatorInputError, MessageCoordinatorError
from afl.coordination.keys import queue_name
from afl.coordination.models import AgentId, MessageSubscription, MessageType

_log = logging.getLogger(__name__)


class Subscriptions:
    """Stores the subscriptions of one coordinator, at once or in the background."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._made: dict[str, list[str]] = {}  # ids by queue; others may have ended some of them
        self._due: list[MessageSubscription] = []
        self._work: asyncio.Task[None] | None = None
        self._failure: MessageCoordinatorError | None = None

    def begin(self, agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
        """Stored in the background; without a running event loop, by the next `flush` or `of`."""
        subscription = _new(agent_id, message_types)
        if subscription.message_types:
            self._due.append(subscription)
            try:
                loop = asyncio.get_running_loop()
            except RuntimeError:  # no loop runs here yet
                return subscription
            if self._work is None or self._work.done():
                self._work = loop.create_task(self._store_due(), name="coordination subscriptions")
        return subscription

    async def add(self, agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
        """Stored when it returns."""
        subscription = _new(agent_id, message_types)
        await self.flush()
        if subscription.message_types:
            await self._store(subscription)
        return subscription

    async def end(self, subscription: MessageSubscription) -> bool:
        """Whether there was one to end."""
        await self.flush()
        queue = queue_name(subscription.agent_id)
        ended = await self._broker.subscribe(queue, subscription.subscription_id, ())
        left = [each for each in self._made.pop(queue, ()) if each != subscription.subscription_id]
        if left:
            self._made[queue] = left
        return ended

    async def of(self, queue: str) -> Sequence[str]:
        """The ids of those made here for a queue, once they are stored."""
        await self._settle()
        return self._made.get(queue, ())

    async def flush(self) -> None:
        """Everything is stored, or the first error is raised."""
        await self._settle()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _settle(self) -> None:
        if self._work is not None and not self._work.done():
            await asyncio.wait([self._work])
        await self._store_due()

    async def _store_due(self) -> None:
        while self._due:
            subscription = self._due.pop(0)
            try:
                await self._store(subscription)
            except MessageCoordinatorError as error:
                self._failure = self._failure or error
                _log.error("a subscription of %s was not stored: %s", subscription.agent_id, error)

    async def _store(self, subscription: MessageSubscription) -> None:
        types = [kind.value for kind in subscription.message_types]
        queue = queue_name(subscription.agent_id)
        await self._broker.subscribe(queue, subscription.subscription_id, types)
        self._made.setdefault(queue, []).append(subscription.subscription_id)


def _new(agent_id: AgentId, message_types: list[MessageType]) -> MessageSubscription:
    queue_name(agent_id)
    try:
        types = [MessageType(kind) for kind in message_types]
    except ValueError as error:
        raise CoordinatorInputError(f"message_types: {error}; expected MessageType") from error
    return MessageSubscription(
        subscription_id=f"sub_{uuid4().hex[:12]}", agent_id=agent_id, message_types=types
    )
