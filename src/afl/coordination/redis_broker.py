"""Queues and a coordinator on Redis: each transition is one script on the time of the server, in one round trip."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.exceptions import RedisError

from afl.coordination.broker import (
    TOKEN_LENGTH,
    Broker,
    Counts,
    DeadMessage,
    Entry,
    NackResult,
    OutgoingMessage,
    SendOutcome,
    TakeResult,
    Waiters,
    new_tokens,
)
from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.errors import MESSAGE_ERRORS, MessageCoordinatorError
from afl.coordination.interfaces import MessageMetrics
from afl.coordination.keys import Keys, QueueKeys, readable
from afl.coordination.notifier import RedisNotifier
from afl.coordination.options import CoordinatorOptions
from afl.coordination.scripts import Argument, Script, ScriptRunner, packed, script

_log = logging.getLogger(__name__)

_OPTIONS = 9  # arguments that pass the coordinator's options to a script
_RECOVERED = 1_000  # reservations per call of the script
_FULL_OF_LAPSED = -2  # full, perhaps of expired messages, which send.lua leaves to the caller
_MOST_QUEUES = 10_000  # whose encoded commands are cached


class _Call(NamedTuple):
    """A script and the common beginning of its commands for one queue."""

    script: Script
    head: bytes
    kinds: Mapping[str, str]


class RedisBroker(Broker):
    """The queues below one key prefix."""

    def __init__(self, redis: Redis, keys: Keys) -> None:
        super().__init__(Waiters())
        self._runner = ScriptRunner(redis, MESSAGE_ERRORS)
        self._keys = keys
        self._notifier = RedisNotifier(redis, self._waiters)
        self._calls: dict[tuple[str, str], _Call] = {}
        self._packed_options: tuple[CoordinatorOptions, bytes] | None = None
        self._cleaning: set[asyncio.Task[None]] = set()

    async def receive(self, queue: str, seconds: float) -> None:
        try:
            await self._notifier.receive(QueueKeys(self._keys.prefix, queue).notify, queue, seconds)
        except (RedisError, OSError) as error:
            raise await self._runner.fault(error, None) from error

    async def send(self, queue: str, parcel: OutgoingMessage) -> SendOutcome:
        answer = await self._run("send", queue, *parcel)
        if answer == _FULL_OF_LAPSED:
            await self.recover(queue)
            answer = await self._run("send", queue, *parcel)
        return SendOutcome.FULL if answer == _FULL_OF_LAPSED else SendOutcome(answer)

    async def send_all(self, parcels: Sequence[tuple[str, OutgoingMessage]]) -> list[SendOutcome | Exception]:
        options, commands = self._option_bytes(), []
        for queue, parcel in parcels:
            call = self._calls.get(("send", queue)) or self._prepare("send", queue, len(parcel))
            commands.append(call.head + options + packed(*parcel))
        answers = await self._runner.call_all(script("send"), commands)
        results: list[SendOutcome | Exception] = []
        for (queue, parcel), answer in zip(parcels, answers, strict=True):
            if isinstance(answer, Exception):
                results.append(await self._runner.fault(answer, QueueKeys(self._keys.prefix, queue).kinds))
            elif answer == _FULL_OF_LAPSED:
                results.append(await self.send(queue, parcel))
            else:
                results.append(SendOutcome(answer))
        return results

    async def take(
        self,
        queue: str,
        most: int,
        visible: int,
        *,
        keep: bool = True,
        subscriptions: Sequence[str] = (),
    ) -> TakeResult:
        tokens = new_tokens(most)
        digits = "".join([token[4:] for token in tokens])
        try:
            answer = await self._run("take", queue, most, visible, digits, int(keep), ",".join(subscriptions))
        except asyncio.CancelledError:
            # The script may have run. Its reply is lost, so what it reserved is released at once.
            self._give_back(queue, tokens)
            raise
        if isinstance(answer, int):
            return TakeResult(due=None if answer < 0 else answer)
        return _read_taken(answer, tokens)

    async def ack(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        return await self._each("ack", queue, tokens)

    async def extend(self, queue: str, tokens: Sequence[str], visible: int) -> list[bool]:
        return await self._each("extend", queue, tokens, visible)

    async def release(self, queue: str, tokens: Sequence[str]) -> list[bool]:
        return await self._each("release", queue, tokens)

    async def nack(
        self, queue: str, token: str, error: bytes, reason: bytes, *, final: bool, share: float
    ) -> NackResult | None:
        if len(token) != TOKEN_LENGTH:
            return None
        answer = await self._run("nack", queue, token, int(final), error, reason, repr(share))
        if answer == 0:
            return None
        what, _, rest = answer.partition(b" ")
        if what == b"dead":
            return NackResult(burial=_burial(rest))
        return NackResult(delay=int(rest.split()[0])) if what == b"retry" else NackResult()

    async def recover(self, queue: str) -> TakeResult:
        total = TakeResult()
        while True:
            head, _, report = (await self._run("recover", queue, _RECOVERED)).partition(b"\n")
            back, looked = map(int, head.split())
            total.back += back
            total.buried += [_burial(line) for line in _lines(report)]
            if looked < _RECOVERED:
                return total

    async def queues(self) -> list[str]:
        names = await self._runner.run("queues", [self._keys.queues], kinds={self._keys.queues: "set"})
        return sorted(readable(names))

    async def count(self, queue: str) -> Counts:
        high, normal, low, waiting, flying, dead, oldest, due = await self._run("statistics", queue)
        return Counts((high, normal, low), waiting, flying, dead, _known(oldest), _known(due))

    async def subscribe(self, queue: str, subscription: str, types: Sequence[str]) -> bool:
        return bool(await self._run("subscribe", queue, subscription, ",".join(types)))

    async def letters(self, queue: str, start: int, stop: int) -> list[bytes]:
        found: list[bytes] = await self._run("look", queue, "dead", start, stop)
        return found

    async def trail(self, queue: str, start: int, stop: int) -> list[bytes]:
        found: list[bytes] = await self._run("look", queue, "audit", start, stop)
        return found

    async def requeue(self, queue: str, dead_id: str, most: int) -> int:
        return int(await self._run("requeue", queue, dead_id, most))

    async def purge(self, queue: str, dead_id: str) -> int:
        return int(await self._run("purge", queue, dead_id))

    async def withdraw(self, queue: str, message_id: str) -> bool:
        return bool(await self._run("withdraw", queue, message_id))

    async def close(self) -> None:
        await self._notifier.close()
        if self._cleaning:
            await asyncio.wait(self._cleaning)

    async def _run(self, name: str, queue: str, *arguments: Argument) -> Any:
        call = self._calls.get((name, queue)) or self._prepare(name, queue, len(arguments))
        return await self._runner.call(
            call.script, call.head + self._option_bytes() + packed(*arguments), call.kinds
        )

    def _prepare(self, name: str, queue: str, count: int) -> _Call:
        if len(self._calls) >= _MOST_QUEUES:
            self._calls.clear()
        keys, it = QueueKeys(self._keys.prefix, queue), script(name)
        call = _Call(it, it.head(keys.all, (keys.notify, queue), _OPTIONS + count), keys.kinds)
        self._calls[name, queue] = call
        return call

    def _option_bytes(self) -> bytes:
        known, options = self._packed_options, self.options
        if known is None or known[0] is not options:
            known = self._packed_options = (options, packed(*_of_options(options)))
        return known[1]

    async def _each(self, name: str, queue: str, tokens: Sequence[str], *more: Argument) -> list[bool]:
        """One result per token; an invalid token needs no command."""
        sound = [token for token in tokens if len(token) == TOKEN_LENGTH and token.isascii()]
        answers = (await self._run(name, queue, *more, "".join(sound))).decode() if sound else ""
        if len(sound) == len(tokens):
            return [answer == "1" for answer in answers]
        known = dict(zip(sound, answers, strict=True))
        return [known.get(token) == "1" for token in tokens]

    def _give_back(self, queue: str, tokens: Sequence[str]) -> None:
        task = asyncio.create_task(self._release_quietly(queue, tokens))
        self._cleaning.add(task)
        task.add_done_callback(self._cleaning.discard)

    async def _release_quietly(self, queue: str, tokens: Sequence[str]) -> None:
        try:
            await self.release(queue, tokens)
        except MessageCoordinatorError as error:  # then they return when their reservations end
            _log.debug("messages of a canceled receive stay reserved in %s for a while: %s", queue, error)


def _of_options(options: CoordinatorOptions) -> tuple[Argument, ...]:
    return (
        options.queue_size,
        options.retry_attempts,
        int(options.backoff_base * 1_000_000),
        repr(float(options.backoff_factor)),
        int(options.backoff_max * 1_000_000),
        options.audit_length,
        options.dead_letter_limit,
        int(options.aging * 1_000_000),
        int(options.dedup_window * 1_000_000),
    )


def _read_taken(answer: bytes, tokens: Sequence[str]) -> TakeResult:
    head, _, rest = answer.partition(b"\n")
    deadline, back, report, *lengths = map(int, head.split())
    buried = [_burial(line) for line in _lines(rest[:report])]
    entries: list[Entry] = []
    start = report
    for token, length in zip(tokens, lengths, strict=False):
        entries.append(_read_entry(token, rest[start : start + length]))
        start += length
    return TakeResult(entries, deadline, 0, back, buried)


def _read_entry(token: str, value: bytes) -> Entry:
    """See lua/parts/entry.lua. Anything else is passed on as a body, which fails to decode."""
    head, _, rest = value.partition(b"\n")
    try:
        attempts, priority, enqueued, _, length = map(int, head.split())
    except ValueError:
        return Entry(token, 0, 5, 0, b"", value)
    return Entry(token, attempts, priority, enqueued, rest[:length], rest[length:])


def _lines(report: bytes) -> list[bytes]:
    return report.split(b"\n") if report else []


def _burial(line: bytes) -> DeadMessage:
    attempts, _, message_id = line.partition(b" ")
    return DeadMessage(message_id.decode(errors="replace"), int(attempts))


def _known(value: int) -> int | None:
    return None if value < 0 else value


class RedisMessageCoordinator(QueueCoordinator):
    """Redis-backed implementation of MessageCoordinator.

    `redis` is a client of redis.asyncio and stays the caller's to close. Keyword arguments are those of
    CoordinatorOptions.
    """

    def __init__(
        self, redis: Redis, key_prefix: str = "ao", metrics: MessageMetrics | None = None, **options: Any
    ) -> None:
        super().__init__(RedisBroker(redis, Keys.under(key_prefix)), metrics, options)
