"""The bus on NATS: commands and events in JetStream, wake-ups and chunks as plain messages."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from afl.kernel.bounds import cut
from afl.kernel.canceling import cancel_and_wait
from afl.kernel.codec import encode
from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.ids import sortable_id
from afl.kernel.setting_kinds import mask_url
from afl.turns.bus.base import (
    MAX_DELIVER,
    Bus,
    Callback,
    Published,
    Subscription,
    WakeupSubscription,
    checked_concurrency,
)
from afl.turns.bus.outbox import OutboxRow
from afl.turns.errors import BusUnavailable
from afl.turns.message import Message
from afl.turns.protocol import headers as names
from afl.turns.protocol.subjects import PREFIX, VERSION

try:
    import nats.errors
    import nats.js.errors
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from nats.js.api import ConsumerConfig, StreamConfig

    from afl.kernel.nats_client import NatsClient
    from afl.turns.bus.nats_subscriptions import (
        LOST,
        REFUSED,
        ConcurrentHandler,
        Group,
        NatsWakeups,
        guarded,
        repeated,
        store_one,
        unsubscribe,
    )
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("nats"):
        raise
    raise MissingExtraError(f"NATS needs its client: {pip_install('nats')}") from missing

DAY = 24 * 3600
STREAMS = {"cmd": (f"cg_cmd_{VERSION}", DAY), "evt": (f"cg_evt_{VERSION}", 7 * DAY)}
_CONNECT_SECONDS = 3
_ACK_SECONDS = 5
_ACK_WAIT = 30
_MOST_UNSENT = 10_000
_TELL_SECONDS = 0.001
_WAKEUP = ".wakeup"
_log = logging.getLogger(__name__)
T = TypeVar("T")


class NatsBus(Bus):
    """One connection. The client reconnects by itself; messages outside of the outbox are lost meanwhile."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._name = sortable_id()
        self._client = NatsClient()
        self._unsent: deque[Message] = deque()
        self._due = asyncio.Event()  # send what is unsent
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._subscriptions: set[NatsWakeups] = set()
        self._complained = False
        self._ready = False  # the streams are there
        self._back = asyncio.Event()  # the connection was lost, and is there again
        self._closed = False

    @property
    def client(self) -> Client:
        """The connection, for other uses of NATS."""
        return self._client

    async def start(self) -> None:
        """Connect; a server that does not answer within seconds is an error here, later it is not."""
        try:
            await asyncio.wait_for(self._connect(), _CONNECT_SECONDS)
            await self._prepare()
        except (*LOST, TimeoutError) as error:
            await self._client.close()
            raise BusUnavailable(f"NATS at {mask_url(self._url)} does not answer: {error!r}") from error
        self._spawn(self._send())

    async def close(self) -> None:
        self._closed = True
        while self._unsent:
            await self._send_one(self._unsent.popleft())
        await cancel_and_wait(self._tasks)
        if self._client.is_connected:
            await self._flush()
        await self._client.close()

    def publish(self, message: Message) -> None:
        """Subscriptions of this process are notified at once; they ignore the copy that comes back from the server."""
        for subscription in self._subscriptions:
            if message.subject.endswith(subscription.suffixes):
                subscription.notify()
                message = replace(message, headers={**message.headers, names.BUS: self._name})
        if len(self._unsent) < _MOST_UNSENT:
            self._unsent.append(message)
            self._schedule(at_once=message.subject.endswith(_WAKEUP))

    def _schedule(self, *, at_once: bool) -> None:
        """A wake-up is sent at once, events a moment later, so that the turn's next statement goes first."""
        if at_once:
            self._due.set()
        elif self._timer is None and not self._due.is_set():
            self._timer = asyncio.get_running_loop().call_later(_TELL_SECONDS, self._due.set)

    async def store(self, rows: Sequence[OutboxRow], last: Mapping[str, int]) -> Published:
        """Subjects concurrently, each in order: the sequence of one message is what the next expects."""
        published = Published()
        by_subject: dict[str, list[OutboxRow]] = {}
        for row in rows:
            by_subject.setdefault(row.message.subject, []).append(row)
        try:
            await self._prepare()
        except LOST as error:
            published.error = error
            return published
        working = [self._store_all(each, last.get(name, 0), published) for name, each in by_subject.items()]
        if len(working) == 1:  # the usual case needs no task of its own
            await working[0]
        else:
            await asyncio.gather(*working)
        return published

    def stored(self, rows: Sequence[OutboxRow]) -> None:
        """They are on the stream already."""

    async def subscribe(self, patterns: Iterable[str], callback: Callback) -> Subscription:
        group = Group()
        seen: OrderedDict[str, None] = OrderedDict()

        async def receive(message: Msg) -> None:
            if not repeated(message, seen):
                await guarded(callback, message)

        for pattern in patterns:
            group.parts.append(await self._client.subscribe(pattern, cb=receive))
        await self._flush()
        return group

    async def consume(
        self, durable: str, patterns: Iterable[str], callback: Callback, *, concurrency: int = 1
    ) -> Subscription:
        handler = ConcurrentHandler(callback, checked_concurrency(concurrency), _ACK_WAIT)
        group = Group()
        by_stream: dict[str, list[str]] = {}
        for pattern in patterns:
            by_stream.setdefault(_category(pattern), []).append(pattern)
        for category, wanted in by_stream.items():
            stream = STREAMS[category][0]
            name = f"{durable}_{category}" if len(by_stream) > 1 else durable
            task = self._spawn(self._pull(stream, name, wanted, handler))
            group.tasks.append(task)
        return group

    async def listen(self, targets: Iterable[str]) -> WakeupSubscription:
        wanted = list(targets)
        subscription = NatsWakeups(
            self._subscriptions, self._name, tuple(f".cmd.agent.{target}.wakeup" for target in wanted)
        )
        for target in wanted:
            subject = f"{PREFIX}.*.*.cmd.agent.{target}.wakeup"
            queue = f"agent_worker_{target}_wakeup_{VERSION}"
            subscription.parts.append(
                await self._client.subscribe(subject, queue=queue, cb=subscription.receive)
            )
        await self._flush()
        self._subscriptions.add(subscription)
        return subscription

    @property
    def _stream(self) -> JetStreamContext:
        return self._client.jetstream(timeout=_ACK_SECONDS)

    async def _connect(self) -> None:
        await self._client.connect(
            self._url,
            name="afl turns",
            max_reconnect_attempts=-1,
            reconnect_time_wait=1,
            connect_timeout=2,
            ping_interval=10,
            error_cb=self._on_error,
            disconnected_cb=self._on_loss,
            reconnected_cb=self._on_return,
        )

    async def _prepare(self) -> None:
        """The streams, made when they are missing: also after a server lost its data."""
        if self._ready:
            return
        for category, (name, age) in STREAMS.items():
            config = StreamConfig(name=name, subjects=[f"{PREFIX}.*.*.{category}.*.*.>"], max_age=age)
            try:
                await self._stream.stream_info(name)
            except nats.js.errors.NotFoundError:
                await self._stream.add_stream(config)
        self._ready = True

    async def _store_all(self, rows: Sequence[OutboxRow], last: int, published: Published) -> None:
        try:
            for row in rows:
                last = await self._store_one(row, last)
                published.sequences[row.position] = last
        except LOST as error:
            self._ready = False
            published.error = error

    async def _store_one(self, row: OutboxRow, last: int) -> int:
        """The sequence of the row. A row that the server refuses gets the last one, so that the rows behind it go on.

        No subscriber receives it; the store has what it reports, and the watchdog finds that.
        """
        try:
            return await store_one(self._stream, STREAMS[_category(row.message.subject)][0], row, last)
        except REFUSED as error:
            _log.error("%s (%s) can never be published: %r", cut(row.message.subject, 200), row.out_id, error)
            return last

    async def _pull(self, stream: str, durable: str, patterns: list[str], handler: ConcurrentHandler) -> None:
        try:
            await self._fetch_all(stream, durable, patterns, handler)
        finally:
            await handler.close()

    async def _fetch_all(
        self, stream: str, durable: str, patterns: list[str], handler: ConcurrentHandler
    ) -> None:
        """Fetch one by one, until the bus is closed, across outages and lost consumers."""
        config = ConsumerConfig(
            durable_name=durable, filter_subjects=patterns, ack_wait=_ACK_WAIT, max_deliver=MAX_DELIVER
        )
        while not self._closed:
            try:
                await self._prepare()
                await self._stream.add_consumer(stream, config)
                pulling = await self._stream.pull_subscribe_bind(durable, stream)
                try:
                    while True:
                        await handler.handle_next(partial(self._fetch, pulling))
                finally:
                    await unsubscribe(pulling)
            except Exception as error:  # without a consumer the commands would never be handled
                self._ready = False
                known = isinstance(error, LOST)
                _log.warning("consumer %s failed: %r; trying again", durable, error, exc_info=not known)
                await asyncio.sleep(0.2)

    async def _fetch(self, pulling: JetStreamContext.PullSubscription) -> Msg | None:
        """The next message; None when none came for a while."""
        try:
            (message,) = await self._unless_back(pulling.fetch(1, timeout=_ACK_SECONDS))
        except TimeoutError:
            if not self._client.is_connected:
                raise
            await pulling.consumer_info()  # a server that restarted may have forgotten it
            return None
        return message

    async def _unless_back(self, asking: Coroutine[Any, Any, T]) -> T:
        """The answer; ConnectionError after a reconnect, because the server then knows of no request."""
        asked, back = asyncio.ensure_future(asking), asyncio.ensure_future(self._back.wait())
        try:
            await asyncio.wait([asked, back], return_when=asyncio.FIRST_COMPLETED)
            if asked.done():
                return asked.result()
            raise ConnectionError("the server was away")
        finally:
            asked.cancel()
            back.cancel()

    async def _send(self) -> None:
        """Send the published messages in order; during an outage they are dropped."""
        while True:
            await self._due.wait()
            self._due.clear()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            while self._unsent:
                await self._send_one(self._unsent.popleft())

    async def _send_one(self, message: Message) -> None:
        if not self._client.is_connected:
            return
        try:
            data = encode(dict(message.payload)).encode()
            await self._client.publish(message.subject, data, headers=dict(message.headers))
        except LOST as error:
            _log.debug("%s was not published: %r", message.subject, error)
        except Exception as error:  # the messages behind it must be sent
            _log.warning("%s cannot be published: %r", message.subject, error)

    async def _flush(self) -> None:
        try:
            await self._client.flush(_ACK_SECONDS)
        except LOST as error:
            _log.debug("NATS did not answer: %r", error)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _on_error(self, error: Exception) -> None:
        level = logging.DEBUG if self._complained else logging.WARNING
        _log.log(level, "NATS at %s failed: %r; trying again", mask_url(self._url), error)
        self._complained = True

    async def _on_loss(self) -> None:
        self._ready = False

    async def _on_return(self) -> None:
        self._complained = False
        self._back.set()
        self._back = asyncio.Event()
        for subscription in list(self._subscriptions):  # wake-ups meanwhile are lost
            subscription.notify()


def _category(subject: str) -> str:
    return subject.split(".")[4]
