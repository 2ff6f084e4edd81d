"""What heads and inbox do, as simply as it can be said: a queue, a status, an epoch and a wait set per agent."""

from __future__ import annotations

from dataclasses import dataclass, field

from afl.kernel.errors import FencedError
from afl.turns.intents import ToolWait
from afl.turns.model import Head, TurnRef
from afl.turns.primitives.cancel import cancel
from afl.turns.primitives.takeover import takeover
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import HeadStatus, ResultStatus
from afl.turns.store import inbox
from afl.turns.transitions import apply_result, enter_running, finish, next_step, resume, stop_turn, suspend
from support.turns_house import OWNER, House


@dataclass
class Actor:
    """One agent as the model sees it."""

    status: str = "idle"
    epoch: int = 0
    turn: str | None = None
    queue: list[str] = field(default_factory=list)
    waits: dict[str, ToolWait] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    stale: Head | None = None  # a head as it once was

    def begin(self) -> None:
        if self.status == "idle" and self.queue:
            self.status, self.turn, self.epoch = "dispatched", self.queue.pop(0), self.epoch + 1

    def end(self, bump: int = 0) -> str:
        turn, self.turn, self.status = self.turn, None, "idle"
        self.epoch += bump
        self.waits, self.reported = {}, set()
        self.begin()
        return turn or ""


class Model:
    """Does the same to a house and to actors; `check` compares them."""

    def __init__(self, house: House, agents: tuple[str, ...]) -> None:
        self.house = house
        self.actors = {agent: Actor() for agent in agents}
        self.ended: list[str] = []

    def do(self, operation: str, agent: str, number: int) -> None:
        getattr(self, f"do_{operation}")(agent, self.actors[agent], number)

    def check(self) -> None:
        for agent, actor in self.actors.items():
            if actor.epoch == 0:
                continue
            head = self.house.head(agent)
            assert (head.status.value, head.turn_epoch) == (actor.status, actor.epoch)
            assert head.active_agent_turn_id == actor.turn
            assert head.waiting_tool_count == len(actor.waits)
        project = f"project_id = '{self.house.project}'"
        queued = sum(len(actor.queue) for actor in self.actors.values())
        assert self.house.count("state.agent_inbox", f"{project} and status = 'queued'") == queued
        assert self.house.count("state.outbox", f"{project} and kind = 'task'") == len(self.ended)
        assert len(set(self.ended)) == len(self.ended)

    def do_enqueue(self, agent: str, actor: Actor, number: int) -> None:
        actor.queue.append(self.house.enqueue(agent).payload["agent_turn_id"])
        actor.begin()

    def do_act(self, agent: str, actor: Actor, number: int) -> None:
        result = self.house.act(agent, new_id("task"))
        if actor.status == "idle":
            actor.queue.insert(0, result.payload["agent_turn_id"])
            actor.begin()
        else:
            assert result.status is ResultStatus.BUSY

    def do_enter(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is None:
            return
        if self._fenced(
            actor.status != "dispatched",
            lambda tx: enter_running(
                tx, head, inbox_id=head.active_inbox_id or "", owner=OWNER, step_id=new_id("step")
            ),
        ):
            actor.status = "running"

    def do_step(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is not None:
            cards = [self.house.card(head) for _ in range(number % 3)]
            self._fenced(
                actor.status != "running",
                lambda tx: next_step(tx, head, step_id=new_id("step"), cards=cards),
            )

    def do_suspend(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is None:
            return
        waits = self.house.waits(number % 3 + 1)
        if self._fenced(actor.status != "running", lambda tx: suspend(tx, head, waits=waits)):
            actor.status, actor.waits = "suspended", {wait.tool_call_id: wait for wait in waits}

    def do_report(self, agent: str, actor: Actor, number: int) -> None:
        if not actor.waits:
            return
        call = sorted(actor.waits)[number % len(actor.waits)]
        result = self.house.report(self.house.head(agent), actor.waits[call])
        assert result.accepted
        assert bool(result.payload.get("duplicate")) == (call in actor.reported)
        actor.reported.add(call)

    def do_apply(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        ready = sorted(actor.reported & actor.waits.keys())
        if head is None or not ready:
            return
        call = ready[number % len(ready)]
        row = self.house.read(lambda tx: inbox.report_row(tx, self.house.project, call))
        assert row is not None
        applied = self.house.write(
            lambda tx: apply_result(
                tx,
                head,
                inbox_id=row.inbox_id,
                tool_call_id=call,
                tool_result_card_id=row.payload["tool_result_card_id"],
            )
        )
        del actor.waits[call]
        assert applied.remaining == len(actor.waits)

    def do_resume(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is None:
            return
        wrong = actor.status != "suspended" or bool(actor.waits)
        if self._fenced(wrong, lambda tx: resume(tx, head, owner=OWNER, step_id=new_id("step"))):
            actor.status = "running"

    def do_finish(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is not None:
            self.house.write(lambda tx: finish(tx, head, self.house.ending(head)))
            self.ended.append(actor.end())

    def do_stop(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is not None:
            self.house.write(lambda tx: stop_turn(tx, head, reason="enough"))
            self.ended.append(actor.end(1))

    def do_cancel(self, agent: str, actor: Actor, number: int) -> None:
        if actor.queue:
            turn = actor.queue.pop(number % len(actor.queue))
            ref = TurnRef(self.house.project, agent, turn)
            assert self.house.write(lambda tx: cancel(tx, self.house.user, ref)).accepted
            self.ended.append(turn)

    def do_takeover(self, agent: str, actor: Actor, number: int) -> None:
        head = self._head(agent, actor)
        if head is None:
            return
        result = self.house.write(lambda tx: takeover(tx, self.house.ref(head), OWNER, dead=[OWNER]))
        assert result.accepted == (actor.status == "running")
        if result.payload.get("failed"):
            self.ended.append(actor.end(1))
        elif result.accepted:
            actor.epoch += 1

    def do_forget(self, agent: str, actor: Actor, number: int) -> None:
        """Somebody comes back who has slept since an earlier moment: nothing happens."""
        if actor.stale is None:
            return
        old = actor.stale
        now = self.house.head(agent)
        if (now.active_agent_turn_id, now.turn_epoch, now.revision) == (
            old.active_agent_turn_id,
            old.turn_epoch,
            old.revision,
        ):
            return
        before = self.house.dump()
        try:
            self.house.write(lambda tx: finish(tx, old, self.house.ending(old)))
        except FencedError:
            assert self.house.dump() == before
        else:
            raise AssertionError("a stale write went through")

    def _head(self, agent: str, actor: Actor) -> Head | None:
        """The head of an active turn; sometimes kept, for somebody who will come too late."""
        if actor.status == HeadStatus.IDLE.value:
            return None
        head = self.house.head(agent)
        if actor.stale is None or head.revision % 3 == 0:
            actor.stale = head
        return head

    def _fenced(self, wrong: bool, work: object) -> bool:
        """Whether it went through: exactly when the model says that it must."""
        try:
            self.house.write(work)  # type: ignore[arg-type]
        except FencedError:
            assert wrong
            return False
        assert not wrong
        return True
