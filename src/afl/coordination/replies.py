"""Requests and their responses: the requester waits for the response with the same correlation id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from afl.coordination.delivery import MessageReceiver, MessageSender
from afl.coordination.errors import (
    CoordinatorClosed,
    MessageCoordinatorError,
    RequestFailed,
    RequestRefused,
    RequestTimeout,
)
from afl.coordination.keys import queue_name
from afl.coordination.message_codec import decode_message
from afl.coordination.models import (
    AgentId,
    AgentMessage,
    MessagePriority,
    MessageResult,
    MessageType,
    RoutingKey,
)
from afl.kernel.canceling import cancel_and_wait

_log = logging.getLogger(__name__)

_INBOX = "replies"
_FAILED = "failed"  # the tag of a response that says why there is none
_BATCH = 100
_LISTEN_SECONDS = 60.0


class RequestInbox:
    """The inbox of one coordinator: a queue of its own, which expires when no one reads it."""

    def __init__(self, posting: MessageSender, receiving: MessageReceiver) -> None:
        self._posting = posting
        self._receiving = receiving
        self._inbox = AgentId(type=_INBOX, instance=uuid4().hex)
        self._asked: dict[str, asyncio.Future[AgentMessage]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def ask(
        self,
        sender: AgentId,
        recipient: AgentId,
        payload: dict[str, Any],
        timeout: float,
        priority: MessagePriority,
    ) -> AgentMessage:
        """Send a request and wait for its response."""
        message = self._request(sender, recipient, payload, priority)
        correlation = message.message_id
        answer: asyncio.Future[AgentMessage] = asyncio.get_running_loop().create_future()
        self._asked[correlation] = answer
        try:
            async with asyncio.timeout(timeout):
                result = await self._posting.send(sender, recipient, message, ttl=timeout)
                if not result.delivered:
                    raise RequestRefused(f"request to {queue_name(recipient)} was refused: {result.error}")
                self._listen()
                return await answer
        except TimeoutError:
            raise RequestTimeout(f"no response from {queue_name(recipient)} within {timeout:g} s") from None
        finally:
            del self._asked[correlation]
            if answer.done() and not answer.cancelled():
                answer.exception()  # retrieved: it may have failed before anything waited for it

    def _request(
        self, sender: AgentId, recipient: AgentId, payload: dict[str, Any], priority: MessagePriority
    ) -> AgentMessage:
        correlation = f"request_{uuid4().hex}"
        return AgentMessage(
            message_id=correlation,
            sender=sender,
            recipient=recipient,
            message_type=MessageType.REQUEST,
            payload=payload,
            priority=priority,
            correlation_id=correlation,
            reply_to=self._inbox,
        )

    async def answer(
        self,
        asked: AgentMessage,
        payload: dict[str, Any],
        sender: AgentId,
        ttl: float,
        tags: Sequence[str] = (),
    ) -> MessageResult:
        """Send a response to the inbox of the requester, else to the queue of the sender."""
        to = asked.reply_to or asked.sender
        message = AgentMessage(
            message_id=f"response_{uuid4().hex}",
            sender=sender,
            recipient=to,
            message_type=MessageType.RESPONSE,
            payload=payload,
            priority=asked.priority,
            routing=RoutingKey(tags=list(tags)),
            correlation_id=asked.correlation_id or asked.message_id,
        )
        if asked.reply_to is None:
            return await self._posting.send(sender, to, message)
        return await self._posting.send(sender, to, message, ttl=ttl, volatile=int(ttl * 1_000) + 1_000)

    async def answer_failure(self, asked: AgentMessage, error: str, sender: AgentId, ttl: float) -> None:
        """Tell a requester that waits why there will be no response."""
        if asked.reply_to is not None:
            await self.answer(asked, {"error": error}, sender, ttl, [_FAILED])

    async def close(self) -> None:
        """Fail the waiting requests."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await cancel_and_wait([reader])
        self._fail(CoordinatorClosed("the coordinator was closed before a response arrived"))

    def _listen(self) -> None:
        if self._reader is None or self._reader.done():
            self._reader = asyncio.create_task(self._read(), name="coordination replies")

    async def _read(self) -> None:
        """Responses are deleted when taken: there is one reader, and a lost response is a request without an answer."""
        queue = queue_name(self._inbox)
        while self._asked:
            try:
                taken = await self._receiving.wait_for(queue, _BATCH, 0, _LISTEN_SECONDS, keep=False)
            except MessageCoordinatorError as error:
                self._fail(error)
                return
            for entry in taken.entries:
                self._hand_over(entry.body)

    def _hand_over(self, body: bytes) -> None:
        try:
            message = decode_message(body)
        except ValueError as error:
            _log.warning("a response cannot be read: %s", error)
            return
        waiting = self._asked.get(message.correlation_id or "")
        if waiting is None or waiting.done():
            return
        if _FAILED in message.routing.tags:
            why = f"request to {queue_name(message.sender)} failed: {message.payload.get('error')}"
            waiting.set_exception(RequestFailed(why))
        else:
            waiting.set_result(message)

    def _fail(self, error: MessageCoordinatorError) -> None:
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(error)
