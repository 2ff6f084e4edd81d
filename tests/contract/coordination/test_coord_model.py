"""Any order of calls, with consumers that die between any two of them, against a model of a few lines."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.post_office import ANN, BOB, HIGH, LOW, NORMAL, Post, letter
from support.properties import tries

from afl.coordination.coordinator import QueueCoordinator
from afl.coordination.models import FailureType, MessagePriority

SIZE, RETRIES = 6, 2
LONG = 3600.0
RUNS = {"memory": 60, "redis": 30}  # the machine is one: what differs is tried by fewer walks


@dataclass(eq=False)
class Known:
    """A message as the model has it."""

    id: str
    priority: MessagePriority
    attempts: int = 0


@dataclass
class Model:
    """Lines by priority, what is delayed, what is held by token, what is dead."""

    lines: dict[MessagePriority, list[Known]] = field(default_factory=lambda: {HIGH: [], NORMAL: [], LOW: []})
    delayed: list[Known] = field(default_factory=list)
    held: dict[str, Known] = field(default_factory=dict)
    dead: list[Known] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        return sum(map(len, self.lines.values())) + len(self.delayed) + len(self.held)

    def next_ones(self, most: int) -> list[Known]:
        return [known for line in self.lines.values() for known in line][:most]

    def fail(self, known: Known, *, final: bool, later: bool) -> None:
        known.attempts += 1
        if final or known.attempts > RETRIES:
            self.dead.append(known)
        elif later:
            self.delayed.append(known)
        else:
            self.lines[known.priority].append(known)


class Machine(RuleBasedStateMachine):
    """Two coordinators on the same queues, and a model that is told the same."""

    url: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.post = Post(self.url)
        options: dict[str, Any] = {"queue_size": SIZE, "retry_attempts": RETRIES}
        options |= {"backoff_base": LONG, "backoff_max": LONG}
        self.coordinators = [self.post.coordinator(**options) for _ in range(2)]
        self.model = Model()
        self.sent = 0

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @property
    def any(self) -> QueueCoordinator:
        """One or the other: which of them is asked must not matter."""
        self.coordinators.reverse()
        return self.coordinators[0]

    @rule(priority=st.sampled_from([HIGH, NORMAL, LOW]), later=st.booleans())
    def send(self, priority: MessagePriority, later: bool) -> None:
        self.sent += 1
        message = letter(self.sent, priority=priority)
        result = self.do(self.any.send_message(ANN, BOB, message, delay_seconds=LONG if later else 0.0))
        assert result.delivered == (self.model.size < SIZE)
        if result.delivered:
            known = Known(message.message_id, priority)
            (self.model.delayed if later else self.model.lines[priority]).append(known)

    @rule(most=st.integers(1, 4))
    def receive(self, most: int) -> None:
        received = self.do(self.any.receive_batch(BOB, most, LONG))
        expected = self.model.next_ones(most)
        assert [each.message.message_id for each in received] == [known.id for known in expected]
        for each, known in zip(received, expected, strict=True):
            assert each.queue_message.delivery_attempts == known.attempts
            self.model.lines[known.priority].remove(known)
            self.model.held[each.token] = known

    def token(self, which: int) -> str:
        """One of those that are held; tokens are random, so a number stands for them."""
        held = list(self.model.held)
        return held[which % len(held)]

    @precondition(lambda self: self.model.held)
    @rule(which=st.integers(0, SIZE - 1))
    def ack(self, which: int) -> None:
        token = self.token(which)
        assert self.do(self.any.ack(BOB, token))
        self.model.done.append(self.model.held.pop(token).id)
        assert not self.do(self.any.ack(BOB, token))

    @precondition(lambda self: self.model.held)
    @rule(which=st.integers(0, SIZE - 1), final=st.booleans())
    def nack(self, which: int, final: bool) -> None:
        token = self.token(which)
        failure = FailureType.PERMANENT if final else FailureType.TRANSIENT
        assert self.do(self.any.nack(BOB, token, failure, "no"))
        self.model.fail(self.model.held.pop(token), final=final, later=True)
        assert not self.do(self.any.nack(BOB, token))

    @precondition(lambda self: self.model.held)
    @rule(which=st.integers(0, SIZE - 1), by_recovery=st.booleans())
    def crash(self, which: int, by_recovery: bool) -> None:
        """A consumer is gone, and its reservation ends. The next one who looks finds what it held."""
        token = self.token(which)
        assert self.do(self.any.extend(BOB, token, 0))
        assert not self.do(self.any.ack(BOB, token))
        known = self.model.held.pop(token)
        self.model.fail(known, final=False, later=False)
        if by_recovery:
            assert self.do(self.any.recover_pending()) == (known not in self.model.dead)
        else:
            self.receive(1)

    @precondition(lambda self: self.model.held)
    @rule()
    def release(self) -> None:
        """The one that was received last stands in front again, whatever came meanwhile."""
        token = list(self.model.held)[-1]
        known = self.model.held.pop(token)
        assert self.do(self.any.release(BOB, [token])) == [True]
        received = self.do(self.any.receive_batch(BOB, SIZE, LONG))
        line = [each for each in received if each.queue_message.priority == known.priority]
        assert known.id in [each.message.message_id for each in line]
        waiting = {each.id: each for line in self.model.lines.values() for each in line} | {known.id: known}
        for each in received:
            self.model.held[each.token] = waiting.pop(each.message.message_id)
        assert not waiting
        self.model.lines = {HIGH: [], NORMAL: [], LOW: []}

    @precondition(lambda self: self.model.delayed)
    @rule()
    def wait(self) -> None:
        """All delays end. In which order does not matter here, so all are received."""
        tokens = list(self.model.held)
        assert all(self.do(self.any.extend_batch(BOB, tokens, 10 * LONG)))
        self.do(self.post.pass_time(LONG))
        assert all(self.do(self.any.extend_batch(BOB, tokens, LONG)))
        received = self.do(self.any.receive_batch(BOB, SIZE, LONG))
        waiting = {each.id: each for line in self.model.lines.values() for each in line}
        waiting |= {each.id: each for each in self.model.delayed}
        assert {each.message.message_id for each in received} == set(waiting)
        for each in received:
            self.model.held[each.token] = waiting[each.message.message_id]
        self.model.lines, self.model.delayed = {HIGH: [], NORMAL: [], LOW: []}, []

    @precondition(lambda self: self.model.dead)
    @rule()
    def requeue(self) -> None:
        went = self.do(self.any.dead_letters.requeue(BOB))
        assert went == min(len(self.model.dead), SIZE - self.model.size)
        for known in self.model.dead[:went]:
            known.attempts = 0
            self.model.lines[known.priority].append(known)
        del self.model.dead[:went]

    @invariant()
    def everything_is_in_one_place(self) -> None:
        model, found = self.model, self.do(self.any.statistics(BOB))
        assert [found.ready_by_priority[each] for each in (HIGH, NORMAL, LOW)] == [
            len(model.lines[each]) for each in (HIGH, NORMAL, LOW)
        ]
        assert (found.delayed, found.in_flight, found.dead) == (
            len(model.delayed),
            len(model.held),
            len(model.dead),
        )
        dead = [each.message_id for each in self.do(self.any.dead_letters.list(BOB))]
        assert dead == [known.id for known in model.dead]
        if self.post.redis is not None:
            self.check_keys(dead)

    def check_keys(self, dead: list[str | None]) -> None:
        """What the server stores: one entry per living message, lined up or reserved, never both."""
        redis, prefix, model = self.post.redis, self.post.prefix, self.model
        assert redis is not None
        stored = {key.decode() for key in self.do(redis.hkeys(f"{prefix}:messages:bob:one"))} - {""}
        lines = [f"{prefix}:sched:bob:one:prio:{level}" for level in (9, 5, 1)]
        lined = [member.decode() for line in lines for member in self.do(redis.zrange(line, 0, -1))]
        held = self.do(redis.hgetall(f"{prefix}:reserved:bob:one"))
        members = [value.decode().split(":", 3)[3] for value in held.values()]
        assert sorted(lined + members) == sorted(stored), "a message in no place, or in two"
        assert {token.decode() for token in held} == set(model.held)
        deadlines = self.do(redis.zrange(f"{prefix}:reserved_deadlines:bob:one", 0, -1))
        assert {token.decode() for token in deadlines} == set(model.held)
        alive = [member.split(":", 1)[1] for member in stored]
        assert sorted(alive + dead + model.done) == sorted(set(alive + dead + model.done)), "one lives on"  # type: ignore[type-var,operator]

    def teardown(self) -> None:
        self.do(self.post.close())
        self.loop.close()


@pytest.mark.parametrize("place", ["memory", "redis"])
def test_no_message_is_lost_and_none_is_in_two_places(place: str, request: pytest.FixtureRequest) -> None:
    class Here(Machine):
        url = request.getfixturevalue("redis_url") if place == "redis" else None

    steps = settings(tries(RUNS[place], deep=60), stateful_step_count=30)
    run_state_machine_as_test(Here, settings=steps)  # type: ignore[no-untyped-call]
    assert (Here.url is None) == (place == "memory")
