"""A consumer: receives messages, calls a handler, and acknowledges them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from afl.coordination.broker import EXPIRED
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import (
    CoordinatorInputError,
    CoordinatorStoreError,
    CoordinatorUnavailable,
    MessageCoordinatorError,
    PermanentFailure,
)
from afl.coordination.keys import queue_name
from afl.coordination.models import AgentId, FailureType, MessageResult, MessageType, ReceivedMessage
from afl.kernel import telemetry
from afl.kernel.backoff import Backoff
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.user_thread import result_of

_log = logging.getLogger(__name__)
_TRACE = "traceparent="  # the prefix of the tag that carries a message's trace context

Handler = Callable[[ReceivedMessage], Any]
_RETRIES = Backoff(0.1, 2.0, 5.0)


class Consumer:
    """Processes an agent's messages, `concurrency` at a time, until `stop`.

    When the handler returns, the message is acknowledged; a dict it returns for a request is the response. An exception
    is a failure: PermanentFailure makes the message a dead letter, TimeoutError and all others are retried.
    While a handler runs its reservation is extended, so `visibility_timeout` bounds how late the death of this process
    is noticed, not how long a handler may take. A handler whose reservation is lost nevertheless is canceled. A plain
    function runs in a thread, which nothing can cancel: it runs on, and its result is not used.
    A message that was reserved when a consumer died may be what killed it: it is processed alone, so that it affects no
    others.
    """

    def __init__(
        self,
        coordinator: QueueCoordinator,
        agent_id: AgentId,
        handler: Handler,
        *,
        concurrency: int = 1,
        visibility_timeout: float = 30.0,
    ) -> None:
        if concurrency < 1:
            raise CoordinatorInputError(f"concurrency is {concurrency}; expected at least 1")
        if not visibility_timeout > 0:
            raise CoordinatorInputError(f"visibility_timeout is {visibility_timeout!r}; expected more than 0")
        self._coordinator = coordinator
        self._agent_id = agent_id
        self._name = queue_name(agent_id)  # as log lines have it
        self._handler = handler
        self._concurrency = concurrency
        self._threads = ThreadPoolExecutor(concurrency, "coordination handler")  # it starts them when needed
        self._visible = visibility_timeout
        self._working: dict[str, asyncio.Task[None]] = {}
        self._held: set[str] = set()
        self._free = asyncio.Event()
        self._loops: list[asyncio.Task[None]] = []
        self._stopping = False
        self._careful = False

    @property
    def in_hand(self) -> int:
        """The number of messages in process."""
        return len(self._working)

    def start(self) -> None:
        """Start to receive; once."""
        if self._loops:
            raise CoordinatorInputError("the consumer was started already")
        self._loops = [
            asyncio.create_task(self._receive(), name="coordination consumer"),
            asyncio.create_task(self._keep(), name="coordination heartbeat"),
        ]

    async def run(self) -> None:
        """Start, and run until `stop` is called or this is canceled; raises what ended it otherwise."""
        self.start()
        try:
            await asyncio.wait([self._loops[0]])
        finally:
            if not self._stopping:
                await self.stop(grace=0.0)

    async def stop(self, grace: float | None = None) -> None:
        """Stop receiving and wait for the handlers, at most `grace` seconds; unfinished messages are released at once.

        A released message keeps its position, and no attempt is counted.
        """
        self._stopping = True
        receiver = self._loops[0] if self._loops else None
        if receiver is not None:
            await cancel_and_wait([receiver])
        if self._working:
            await asyncio.wait(self._working.values(), timeout=grace)
        try:
            await self._give_back(dict(self._working))
        finally:
            await cancel_and_wait(self._loops[1:])
            self._threads.shutdown(wait=False)
        if receiver is not None and not receiver.cancelled() and (error := receiver.exception()) is not None:
            raise error

    async def _give_back(self, unfinished: dict[str, asyncio.Task[None]]) -> None:
        await cancel_and_wait(unfinished.values())
        if unfinished:
            await self._coordinator.release(self._agent_id, list(unfinished))

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(grace=None if kind is None else 0.0)

    async def _receive(self) -> None:
        failures = 0
        while True:
            room = self._room()
            if room <= 0:
                self._free.clear()
                await self._free.wait()
                continue
            try:
                wait = self._coordinator.options.fallback_interval
                batch = await self._coordinator.receive_batch(self._agent_id, room, self._visible, wait=wait)
                await self._sort(batch)
            except (
                CoordinatorUnavailable,
                CoordinatorStoreError,
            ) as error:  # an error of the server may be temporary too
                failures += 1
                _log.warning("%s cannot receive, attempt %d: %s", self._name, failures, error)
                await asyncio.sleep(_RETRIES.delay(failures))
                continue
            except MessageCoordinatorError as error:
                _log.error("%s receives no more messages: %s", self._name, error)
                raise
            except Exception:  # one unexpected message must not end the consumer
                failures += 1
                _log.exception("%s cannot receive, attempt %d", self._name, failures)
                await asyncio.sleep(_RETRIES.delay(failures))
                continue
            failures = 0

    def _room(self) -> int:
        if self._careful:
            return 0 if self._working else 1
        return self._concurrency - len(self._working)

    async def _sort(self, batch: list[ReceivedMessage]) -> None:
        """Start what was received; suspects are released, to be taken one by one, unless there is nothing else."""
        suspects = [each.token for each in batch if each.queue_message.last_error == EXPIRED]
        if suspects and (len(batch) > 1 or self._working):
            self._careful = True
            for each in batch:
                if each.token not in suspects:
                    self._begin(each)
            await self._coordinator.release(self._agent_id, suspects)
            return
        if batch:
            self._careful = bool(suspects)
        for each in batch:
            self._begin(each)

    def _begin(self, received: ReceivedMessage) -> None:
        task = asyncio.create_task(self._work(received))
        self._working[received.token] = task
        self._held.add(received.token)
        task.add_done_callback(lambda _: self._end(received.token))

    def _end(self, token: str) -> None:
        del self._working[token]
        self._held.discard(token)
        self._free.set()

    async def _work(self, received: ReceivedMessage) -> None:
        try:
            with _observed(received):
                answer = await result_of(self._handler, [received], threads=self._threads)
        except PermanentFailure as error:
            await self._answer(received, FailureType.PERMANENT, error)
        except TimeoutError as error:
            await self._answer(received, FailureType.TIMEOUT, error)
        except Exception as error:
            attempt = received.queue_message.delivery_attempts + 1
            _log.warning(
                "message %r of %s failed, attempt %d",
                received.message.message_id,
                self._name,
                attempt,
                exc_info=True,
            )
            await self._answer(received, FailureType.TRANSIENT, error)
        else:
            await self._finish(received, answer)

    async def _finish(self, received: ReceivedMessage, answer: Any) -> None:
        self._held.discard(received.token)
        try:
            await self._while_reserved(lambda: self._acknowledge(received, answer))
        except MessageCoordinatorError as error:
            _log.warning("a processed message of %s was not acknowledged: %s", self._name, error)

    async def _acknowledge(self, received: ReceivedMessage, answer: Any) -> None:
        """The response is sent first: an acknowledged request has been answered."""
        message = received.queue_message.message
        if message.message_type is MessageType.REQUEST and isinstance(answer, dict):
            told = await self._coordinator.respond(received, answer, sender=self._agent_id)
            if not told.delivered:  # the requester waits for it: it is retried, or becomes a dead letter
                error = f"the response was refused: {told.error}"
                attempt = received.queue_message.delivery_attempts + 1
                _log.warning(
                    "message %r of %s failed, attempt %d: %s", message.message_id, self._name, attempt, error
                )
                await self._refuse(received, FailureType.TRANSIENT, error)
                return
        elif message.message_type is MessageType.REQUEST and not isinstance(answer, MessageResult | None):
            _log.warning(
                "request %r of %s gets no response: its handler returned a %s, and only a dict is sent",
                message.message_id,
                self._name,
                type(answer).__name__,
            )
        if not await self._coordinator.ack(self._agent_id, received.token):
            _log.warning("%s finished too late: its reservation had ended", message.message_id)

    async def _answer(self, received: ReceivedMessage, failure: FailureType, error: Exception) -> None:
        self._held.discard(received.token)
        text = f"{type(error).__name__}: {error}"
        try:
            await self._while_reserved(lambda: self._refuse(received, failure, text))
        except MessageCoordinatorError as lost:
            _log.warning("a failure of %s (%s) was not reported: %s", self._name, text, lost)

    async def _refuse(self, received: ReceivedMessage, failure: FailureType, error: str) -> None:
        """Report a failed attempt; after the last one, whoever waits for a response is told that there will be none."""
        was_held = await self._coordinator.nack(self._agent_id, received.token, failure, error)
        attempts = received.queue_message.delivery_attempts + 1
        is_last = failure is FailureType.PERMANENT or attempts > self._coordinator.options.retry_attempts
        if was_held and is_last and received.message.message_type is MessageType.REQUEST:
            await self._coordinator.respond_failure(received, error, sender=self._agent_id)

    async def _while_reserved(self, report: Callable[[], Awaitable[object]]) -> None:
        """Report an outcome; try again while the server is away, as long as the reservation can last."""
        until = time.monotonic() + self._visible
        for pause in _RETRIES.delays():
            try:
                await report()
                return
            except CoordinatorUnavailable:
                if self._stopping or time.monotonic() + pause > until:
                    raise
                await asyncio.sleep(pause)

    async def _keep(self) -> None:
        """Extend the reservations, three times per visibility timeout."""
        while True:
            await asyncio.sleep(self._visible / 3)
            tokens = list(self._held)
            if not tokens:
                continue
            try:
                kept = await self._coordinator.extend_batch(self._agent_id, tokens, self._visible)
            except Exception as error:
                known = isinstance(error, MessageCoordinatorError)
                _log.warning(
                    "reservations of %s could not be extended: %s", self._name, error, exc_info=not known
                )
                continue
            for token, held in zip(tokens, kept, strict=True):
                if not held and token in self._held:
                    self._working[token].cancel()


def _observed(received: ReceivedMessage) -> AbstractContextManager[object]:
    """A request with a trace context continues that trace."""
    message = received.message
    if not telemetry.is_tracing() or message.message_type is not MessageType.REQUEST:
        return telemetry.UNOBSERVED
    place = next((tag for tag in message.routing.tags if tag.startswith(_TRACE)), "")
    about = {"afl.message": message.message_id, "afl.agent": message.recipient.type}
    return telemetry.span("afl.message", place.removeprefix(_TRACE), **about)
