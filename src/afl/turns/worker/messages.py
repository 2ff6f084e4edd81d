"""What a message of the inbox leads to: each kind is one transition over an open transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.turns.cardbox.card_store import card_of, find_cards
from afl.turns.cardbox.cards import Card
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent
from afl.turns.message import Message
from afl.turns.model import Begun, Head, InboxRow, L0Result, TurnRef
from afl.turns.primitives.stop import stop
from afl.turns.protocol.events import state_event
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import Activity, HeadStatus, MessageType, Primitive, StepStatus, TaskStatus
from afl.turns.store import heads, inbox
from afl.turns.store.edges import edges_of_turn
from afl.turns.store.heads import Ending
from afl.turns.store.steps import StepEnd, close_step, open_step
from afl.turns.worker.beginning import is_to_begin
from afl.turns.worker.desk import Desk
from afl.turns.worker.moves import Think, next_move
from afl.turns.worker.resuming import Act, Decision, Reading, decide
from afl.turns.worker.scene import Q, Scene
from afl.turns.worker.settling import after_step, finish
from afl.turns.worker.writing import Writer

INTERNAL_ERROR = "internal_error"
RETRIES_EXHAUSTED = "resume_retry_exhausted"
Read = Callable[[Transaction, Head, str], Scene]


@dataclass(frozen=True, slots=True)
class Led:
    """Where a message led: a turn to run, results to publish, and the turn that is over by it."""

    scene: Scene | None = None
    results: tuple[L0Result, ...] = ()
    events: tuple[Message, ...] = ()
    over: Head | None = None
    retry_ms: int | None = None


@dataclass(frozen=True)
class Messages:
    """The transitions, for one worker."""

    desk: Desk

    def handle(self, tx: Transaction, row: InboxRow) -> Led:
        """Do what a claimed message asks for; afterwards it is done, or put off."""
        if row.message_type in (MessageType.TURN, MessageType.UI_ACTION):
            return self._begin(tx, row)
        if row.message_type is MessageType.STOP:
            return self._stop(tx, row)
        return self._answer(tx, row)

    def give_up(self, tx: Transaction, row: InboxRow, why: str) -> Led:
        """A message that cannot be handled: the turn it is of fails, so that nobody waits for it for ever."""
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        if head is None or head.active_agent_turn_id != row.agent_turn_id:
            inbox.refuse(tx, row.project_id, row.inbox_id, why)
            return Led()
        return self._failed(tx, head, row, INTERNAL_ERROR, why)

    def put_off(self, tx: Transaction, row: InboxRow, reason: str, delay: float = 1.0) -> Led:
        """Look again later; too often is never."""
        if row.retry_count >= self.desk.limits.max_defers:
            head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
            if head is not None and head.active_agent_turn_id == row.agent_turn_id:
                return self._failed(tx, head, row, RETRIES_EXHAUSTED, f"put off too often: {reason}")
            inbox.refuse(tx, row.project_id, row.inbox_id, reason)
            return Led()
        wait = max(delay, self.desk.limits.defer.delay(row.retry_count + 1))
        inbox.defer(tx, row.project_id, row.inbox_id, int(wait * 1000), reason)
        return Led(retry_ms=int(wait * 1000))

    def take_over(self, tx: Transaction, lost: Head, dead: Sequence[str]) -> Led:
        """Go on with a turn whose worker was lost: a step row for what is done here, the rest is on its cards."""
        turn = TurnRef(lost.project_id, lost.agent_id, lost.active_agent_turn_id or "", lost.turn_epoch)
        taken = self.desk.engine.takeover(tx, turn, self.desk.owner, dead=dead)
        if not taken.accepted:
            return Led()
        if taken.payload.get("failed"):
            return Led(results=(taken,), over=lost)
        head: Head = taken.payload["head"]
        scene, failed = self._entered(tx, head, new_id("step"), self.desk.scenes.recall)
        if scene is None:
            return Led(results=(failed,) if failed is not None else (), over=head)
        self._take_up(tx, scene)
        return Led(scene)

    def _take_up(self, tx: Transaction, scene: Scene) -> None:
        """A step whose tools were called goes on; one in which the model was asked is lost, and another begins."""
        move, head = next_move(scene.output, scene.turn_id), scene.head
        if isinstance(move, Think):
            open_step(tx, head, scene.step_id)
            return
        scene.step_id = move.step_id
        close_step(tx, head, StepEnd(scene.step_id, StepStatus.TOOL_DISPATCHED))

    def open(self, tx: Transaction, begun: Begun) -> Led:
        """A turn that was entered where it was claimed: what is missing to run it is read."""
        made = partial(self.desk.scenes.made, cards=begun.cards)
        scene, failed = self._entered(tx, begun.head, begun.step_id, made)
        if scene is None:
            return Led(results=(failed,) if failed is not None else (), over=begun.head)
        return Led(scene)

    # -- a turn begins ----------------------------------------------------------------------------------------

    def _begin(self, tx: Transaction, row: InboxRow) -> Led:
        head = heads.read_head(tx, row.project_id, row.agent_id)
        made = 0 if head is None else head.turn_epoch
        if head is None or not 0 < row.turn_epoch <= made:
            why = f"turn {row.agent_turn_id} has the epoch {row.turn_epoch}; L0 has made {made} for {row.agent_id}"
            inbox.refuse(tx, row.project_id, row.inbox_id, why)
            return Led()
        if not is_to_begin(head, row):
            inbox.consume(tx, row.project_id, row.inbox_id)  # it has begun, or is over
            return Led()
        step_id = new_id("step")
        running = heads.enter_running(
            tx,
            head,
            inbox_id=row.inbox_id,
            owner=self.desk.owner,
            step_id=step_id,
            lease_ms=self.desk.engine.limits.lease_ms,
        )
        scene, failed = self._entered(tx, running, step_id)
        if scene is None:
            return Led(results=(failed,) if failed is not None else (), over=running)
        return Led(scene)

    def _entered(
        self, tx: Transaction, head: Head, step_id: str, read: Read | None = None
    ) -> tuple[Scene | None, L0Result | None]:
        """The scene of a running turn; one whose profile or task cannot be read fails."""
        try:
            return (read or self.desk.scenes.read)(tx, head, step_id), None
        except InputError as error:
            why = str(error)
            step = StepEnd(step_id, StepStatus.FAILED, error=why)
            return None, heads.fail_turn(tx, head, error=why, error_code="profile_not_found", step=step)

    # -- a tool answered --------------------------------------------------------------------------------------

    def _answer(self, tx: Transaction, row: InboxRow) -> Led:
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        read = self._reading(tx, row, head)
        decision = decide(read)
        if decision.act is Act.APPLY:
            assert head is not None and read.card is not None
            return self._apply(tx, row, head, read.card)
        if decision.act is Act.DEFER:
            return self.put_off(tx, row, decision.reason, decision.delay)
        if decision.act is Act.FAIL:
            return self._violated(tx, row, head, decision)
        inbox.consume(tx, row.project_id, row.inbox_id)
        return Led()

    def _reading(self, tx: Transaction, row: InboxRow, head: Head | None) -> Reading:
        named = row.payload.get("tool_result_card_id")
        card = find_cards(tx, row.project_id, [named]).get(named) if isinstance(named, str) else None
        waits = [] if head is None else heads.read_waiting(tx, head)
        wait = next((wait for wait in waits if wait.tool_call_id == row.correlation_id), None)
        return Reading(row, head, card, wait, None if card is None else self._thought(tx, row, card))

    def _thought(self, tx: Transaction, row: InboxRow, card: Card) -> Card | None:
        found = tx.one(Q.thought_of_step, project=row.project_id, turn=row.agent_turn_id, step=card.step_id)
        return None if found is None else card_of(found)

    def _apply(self, tx: Transaction, row: InboxRow, head: Head, card: Card) -> Led:
        result = {
            "inbox_id": row.inbox_id,
            "tool_call_id": row.correlation_id or "",
            "tool_result_card_id": card.card_id,
        }
        if head.status is HeadStatus.RUNNING:  # other tools of the step are still at work, in its worker
            heads.apply_early(tx, head, **result)
            return Led()
        applied = heads.apply_result(tx, head, **result)
        if applied.remaining:
            event = state_event(applied.head, activity=Activity.AWAITING_TOOL_RESULT)
            return Led(events=(event,))
        return self._resume(tx, applied.head, card.step_id)

    def _resume(self, tx: Transaction, head: Head, suspended_step: str) -> Led:
        """Nothing is waited for any more: the turn goes on, or one of the results ends it."""
        scene, failed = self._entered(tx, head, suspended_step)
        if scene is None:
            return Led(results=(failed,) if failed is not None else (), over=head)
        limits, ended = self.desk.engine.limits, StepEnd(suspended_step)
        writer = Writer(head, suspended_step, limits)
        following = after_step(scene, (), writer, ended, self.desk.limits)
        if isinstance(following, Ending):
            return Led(results=(finish(tx, scene, following, limits).result,), over=head)
        step_id = new_id("step")
        running = heads.resume(
            tx,
            head,
            owner=self.desk.owner,
            step_id=step_id,
            cards=following,
            ended=ended,
            lease_ms=limits.lease_ms,
        )
        scene.moved(running, following, step_id)
        return Led(scene)

    def _violated(self, tx: Transaction, row: InboxRow, head: Head | None, decision: Decision) -> Led:
        """The protocol was broken: the turn cannot trust what it waits for, and fails."""
        if head is None or head.active_agent_turn_id != row.agent_turn_id:
            inbox.refuse(tx, row.project_id, row.inbox_id, decision.reason)
            return Led()
        return self._failed(tx, head, row, decision.reason, f"a report broke the protocol: {decision.reason}")

    def _failed(self, tx: Transaction, head: Head, row: InboxRow, code: str, why: str) -> Led:
        result = heads.fail_turn(
            tx, head, error=why, error_code=code, status=TaskStatus.FAILED, inbox_id=row.inbox_id
        )
        return Led(results=(result,), over=head)

    # -- somebody wants it to end -----------------------------------------------------------------------------

    def _stop(self, tx: Transaction, row: InboxRow) -> Led:
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        if head is None or head.active_agent_turn_id != row.agent_turn_id or head.turn_epoch < row.turn_epoch:
            inbox.consume(tx, row.project_id, row.inbox_id)
            return Led()
        reason = str(row.payload.get("reason") or "stopped")
        result = heads.stop_turn(tx, head, reason=reason, inbox_id=row.inbox_id)
        children = stop_children(tx, head, reason)
        return Led(results=(result, *children), over=head)


def stop_children(tx: Transaction, head: Head, reason: str) -> list[L0Result]:
    """Ask every turn that this one set off to end; those do the same with theirs."""
    context = TurnContext.root(head.project_id, "sys.stop", head.active_channel_id or "public")
    found = []
    for edge in edges_of_turn(tx, head.project_id, head.active_agent_turn_id or ""):
        if edge.primitive == Primitive.ENQUEUE:
            turn = TurnRef(head.project_id, edge.target_agent_id, edge.target_agent_turn_id)
            why = {"reason": f"its parent was stopped: {reason}"}
            found.append(stop(tx, context, AddressIntent(turn, MessageType.STOP, why)))
    return found
