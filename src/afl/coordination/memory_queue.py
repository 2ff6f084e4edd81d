"""One queue in memory, with the transitions of lua/*.lua. Pure: the time is passed in."""

from __future__ import annotations

import json
from bisect import insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from afl.coordination.broker import (
    EXPIRED,
    Counts,
    DeadMessage,
    Entry,
    NackResult,
    OutgoingMessage,
    SendOutcome,
    TakeResult,
)
from afl.coordination.message_codec import decode_message
from afl.coordination.options import CoordinatorOptions

LEVELS = (9, 5, 1)
_EXPIRED = f'"{EXPIRED}"'.encode()


@dataclass(slots=True, eq=False)
class Stored:
    """A stored message. `place` is its score and sequence number, which order it."""

    message_id: str
    message_type: str
    priority: int
    body: bytes
    enqueued: int
    expires: int
    place: tuple[int, int]
    attempts: int = 0
    error: bytes = b""

    def __lt__(self, other: Stored) -> bool:
        return self.place < other.place

    def is_lapsed(self, now: int) -> bool:
        return 0 < self.expires <= now


@dataclass(slots=True)
class Reservation:
    """A reservation."""

    stored: Stored
    deadline: int


@dataclass(slots=True)
class Letter:
    """A dead letter: its JSON text, and the message to send again."""

    dead_id: str
    text: bytes
    stored: Stored


@dataclass(slots=True)
class MemoryQueue:
    """The queue of one agent."""

    lines: dict[int, list[Stored]] = field(default_factory=lambda: {level: [] for level in LEVELS})
    held: dict[str, Reservation] = field(default_factory=dict)
    dead: list[Letter] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[str, tuple[str, ...]] = field(default_factory=dict)
    trail: deque[bytes] = field(default_factory=deque)
    sequence: int = 0
    clock: int = 0
    is_volatile: bool = False

    @property
    def size(self) -> int:
        """The number of messages that count toward the size limit."""
        return sum(map(len, self.lines.values())) + len(self.held)

    @property
    def is_unlisted(self) -> bool:
        """Whether it is in no index: empty, or volatile."""
        return self.is_volatile or (not self.size and not self.dead)

    def send(self, parcel: OutgoingMessage, options: CoordinatorOptions, now: int) -> SendOutcome:
        window = int(options.dedup_window * 1_000_000)
        if window and self.seen.get(parcel.message_id, 0) > now:
            return SendOutcome.DUPLICATE
        self._drop_lapsed(options, now)
        if self.size >= options.queue_size:
            return SendOutcome.FULL
        if window:
            self.seen = {known: until for known, until in self.seen.items() if until > now}
            self.seen[parcel.message_id] = now + window
        self.is_volatile = parcel.volatile > 0
        expires = now + parcel.ttl if parcel.ttl else 0
        stored = Stored(
            parcel.message_id, parcel.message_type, parcel.priority, parcel.body, now, expires, (0, 0)
        )
        self._enqueue(stored, parcel.delay, now)
        self._note(options, now, "sent", stored)
        return SendOutcome.STORED

    def types_of(self, subscriptions: Sequence[str]) -> frozenset[str]:
        """The types of those subscriptions that have not ended; empty when all have."""
        return frozenset(kind for each in subscriptions for kind in self.subscriptions.get(each, ()))

    def take(
        self,
        tokens: Sequence[str],
        visible: int,
        keep: bool,
        options: CoordinatorOptions,
        now: int,
        wanted: frozenset[str],
    ) -> TakeResult:
        """Messages of the types that are wanted; of all types when none is named."""
        taken = self.recover(options, now)
        taken.deadline = now + visible
        at = max(now, self.clock)
        for token in tokens:
            stored = self._next(at, int(options.aging * 1_000_000), wanted)
            if stored is None:
                break
            self.lines[stored.priority].remove(stored)
            if keep:
                self.held[token] = Reservation(stored, taken.deadline)
            taken.entries.append(
                Entry(token, stored.attempts, stored.priority, stored.enqueued, stored.error, stored.body)
            )
        taken.due = self._due(now, wanted)
        return taken

    def ack(self, token: str, options: CoordinatorOptions, now: int) -> bool:
        hold = self._end_reservation(token, now)
        if hold is not None:
            self._note(options, now, "acked", hold.stored)
        return hold is not None

    def extend(self, token: str, visible: int, now: int) -> bool:
        hold = self.held.get(token)
        if hold is None or hold.deadline <= now:
            return False
        hold.deadline = now + visible
        return True

    def release(self, token: str, options: CoordinatorOptions, now: int) -> bool:
        hold = self._end_reservation(token, now)
        if hold is None:
            return False
        insort(self.lines[hold.stored.priority], hold.stored)
        self._note(options, now, "released", hold.stored)
        return True

    def nack(
        self,
        token: str,
        error: bytes,
        reason: bytes,
        options: CoordinatorOptions,
        now: int,
        *,
        final: bool,
        share: float,
    ) -> NackResult | None:
        hold = self._end_reservation(token, now)
        if hold is None:
            return None
        stored = hold.stored
        stored.attempts += 1
        stored.error = error
        if final or stored.attempts > options.retry_attempts:
            return NackResult(burial=self._bury(stored, reason, options, now))
        delay = _backoff(options, stored.attempts, share)
        if not self._put_back(stored, delay, "retried", options, now):
            return NackResult()
        return NackResult(delay=delay)

    def recover(self, options: CoordinatorOptions, now: int) -> TakeResult:
        """Return expired reservations, in the order of their deadlines."""
        result = TakeResult()
        expired = sorted((hold.deadline, token) for token, hold in self.held.items() if hold.deadline <= now)
        for _, token in expired:
            stored = self.held.pop(token).stored
            stored.attempts += 1
            stored.error = _EXPIRED
            if stored.attempts > options.retry_attempts:
                result.buried.append(self._bury(stored, _EXPIRED, options, now))
            elif self._put_back(stored, 0, "expired", options, now):
                result.back += 1
        self._drop_lapsed(options, now)
        return result

    def count(self, options: CoordinatorOptions, now: int) -> Counts:
        self._drop_lapsed(options, now)
        at = max(now, self.clock)
        ready = {level: [each for each in line if each.place[0] <= at] for level, line in self.lines.items()}
        scores = [each.place[0] for line in ready.values() for each in line]
        later = [each.place[0] for line in self.lines.values() for each in line if each.place[0] > at]
        return Counts(
            (len(ready[9]), len(ready[5]), len(ready[1])),
            len(scores) + len(later),
            len(self.held),
            len(self.dead),
            at - min(scores) if scores else None,
            min(later) - at if later else None,
        )

    def requeue(self, dead_id: str, most: int, options: CoordinatorOptions, now: int) -> int:
        went = 0
        for letter in list(self.dead):
            if went >= most or self.size >= options.queue_size:
                break
            if (dead_id and letter.dead_id != dead_id) or not _is_readable(letter.stored.body):
                continue
            self.dead.remove(letter)
            old = letter.stored
            stored = Stored(old.message_id, old.message_type, old.priority, old.body, now, 0, (0, 0))
            self._enqueue(stored, 0, now)
            self._note(options, now, "requeued", stored)
            went += 1
        return went

    def purge(self, dead_id: str) -> int:
        kept = [letter for letter in self.dead if dead_id and letter.dead_id != dead_id]
        gone = len(self.dead) - len(kept)
        self.dead = kept
        return gone

    def withdraw(self, message_id: str, options: CoordinatorOptions, now: int) -> bool:
        gone = [hold.stored for hold in self.held.values() if hold.stored.message_id == message_id]
        gone += [each for line in self.lines.values() for each in line if each.message_id == message_id]
        self.held = {token: hold for token, hold in self.held.items() if hold.stored not in gone}
        self.lines = {
            level: [each for each in line if each not in gone] for level, line in self.lines.items()
        }
        for stored in gone:
            self._note(options, now, "withdrawn", stored)
        if options.dedup_window:
            self.seen[message_id] = now + int(options.dedup_window * 1_000_000)
        return bool(gone)

    def _heads(self, wanted: frozenset[str]) -> list[Stored]:
        """The first message of each priority."""
        firsts = (
            next((each for each in line if not wanted or each.message_type in wanted), None)
            for line in self.lines.values()
        )
        return [first for first in firsts if first is not None]

    def _next(self, at: int, aging: int, wanted: frozenset[str]) -> Stored | None:
        heads = [head for head in self._heads(wanted) if head.place[0] <= at]
        if not heads or not aging:
            return heads[0] if heads else None

        def rank(stored: Stored) -> tuple[int, int]:
            level = 3 - LEVELS.index(stored.priority) + (at - stored.place[0]) // aging
            return -min(3, level), stored.place[0]

        return min(heads, key=rank)

    def _due(self, now: int, wanted: frozenset[str]) -> int | None:
        times = [head.place[0] for head in self._heads(wanted)]
        times += [hold.deadline for hold in self.held.values()]
        return max(0, min(times) - now) if times else None

    def _end_reservation(self, token: str, now: int) -> Reservation | None:
        hold = self.held.get(token)
        if hold is None or hold.deadline <= now:
            return None
        return self.held.pop(token)

    def _enqueue(self, stored: Stored, delay: int, now: int) -> None:
        self.clock = max(self.clock, now)
        self.sequence += 1
        stored.place = (self.clock + delay, self.sequence)
        insort(self.lines[stored.priority], stored)

    def _put_back(
        self, stored: Stored, delay: int, event: str, options: CoordinatorOptions, now: int
    ) -> bool:
        if stored.is_lapsed(now):
            self._note(options, now, "lapsed", stored)
            return False
        stored.place = (max(self.clock, now) + delay, stored.place[1])
        insort(self.lines[stored.priority], stored)
        self._note(options, now, event, stored)
        return True

    def _drop_lapsed(self, options: CoordinatorOptions, now: int) -> None:
        for level, line in self.lines.items():
            lapsed = [stored for stored in line if stored.is_lapsed(now)]
            if lapsed:
                self.lines[level] = [stored for stored in line if not stored.is_lapsed(now)]
            for stored in lapsed:
                self._note(options, now, "lapsed", stored)

    def _bury(self, stored: Stored, reason: bytes, options: CoordinatorOptions, now: int) -> DeadMessage:
        dead_id = f"{now}-{stored.place[1]:016d}"
        head = {"dead_id": dead_id, "dead_at": now, "reason": json.loads(reason)}
        head["delivery_attempts"] = stored.attempts
        head["last_error"] = json.loads(stored.error) if stored.error else None
        head |= {"priority": stored.priority, "enqueued_at": stored.enqueued}
        text = json.dumps(head)[:-1].encode() + b', "message": ' + stored.body + b"}"
        self.dead.append(Letter(dead_id, text, stored))
        del self.dead[: -options.dead_letter_limit]
        self._note(options, now, "dead", stored)
        return DeadMessage(stored.message_id, stored.attempts)

    def _note(self, options: CoordinatorOptions, now: int, event: str, stored: Stored) -> None:
        self.trail.append(f"{now} {event} {stored.message_id}".encode())
        while len(self.trail) > options.audit_length:
            self.trail.popleft()


def _backoff(options: CoordinatorOptions, attempts: int, share: float) -> int:
    if not options.backoff_base:
        return 0
    try:
        delay = options.backoff_base * options.backoff_factor ** (attempts - 1)
    except OverflowError:
        delay = options.backoff_max
    return int(min(delay, options.backoff_max) * 1_000_000 * share)


def _is_readable(body: bytes) -> bool:
    try:
        decode_message(body)
    except ValueError:
        return False
    return True
