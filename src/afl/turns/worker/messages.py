"""Inbox messages other than new turns: each is handled by one transaction, in order, and then consumed or deferred."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afl.kernel.database import Row, Transaction
from afl.kernel.errors import InputError
from afl.turns.cardbox.card_store import card_of, find_cards
from afl.turns.cardbox.cards import Card
from afl.turns.context import TurnContext
from afl.turns.intents import AddressIntent
from afl.turns.message import Message
from afl.turns.model import EnteredTurn, Head, InboxRow, L0Result, TurnRef, WaitingTool
from afl.turns.primitives.stop import stop
from afl.turns.protocol.events import state_event
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import (
    Activity,
    AfterExecution,
    CardType,
    HeadStatus,
    MessageType,
    Primitive,
    StepStatus,
)
from afl.turns.store import heads, inbox
from afl.turns.store.edges import edges_of_turn
from afl.turns.store.steps import StepEnd, close_step, open_step
from afl.turns.tools.questions import QUESTIONS
from afl.turns.transitions import (
    Ending,
    apply_early,
    apply_result,
    enter_running,
    fail_turn,
    resume,
    stop_turn,
)
from afl.turns.worker.card_writer import CardWriter
from afl.turns.worker.claims import is_dispatched_by
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.step_commit import after_step, finish_turn, has_open_calls
from afl.turns.worker.turn_state import CallModel, Q, TurnState, next_action

INTERNAL_ERROR = "internal_error"
RETRIES_EXHAUSTED = "resume_retry_exhausted"
_PAYLOAD = frozenset({"status", "after_execution", "tool_result_card_id"})


class ReportAction(StrEnum):
    """What is done with the message of a tool's result."""

    APPLY = "apply"
    CONSUME = "consume"
    DEFER = "defer"
    FAIL = "fail"  # the turn, because the protocol was violated


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is stored with the message, or is the code with which the turn fails; `delay` is in seconds."""

    action: ReportAction
    reason: str = ""
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The message of a tool's result, and the rows it refers to."""

    row: InboxRow
    head: Head | None = None
    card: Card | None = None
    wait: WaitingTool | None = None
    thought: Card | None = None


def decide(report: Report) -> Decision:
    """The first rule of the protocol's resume list that applies."""
    return (
        _check_turn(report)
        or _check_payload(report.row.payload)
        or _check_card(report)
        or _check_wait(report)
    )


def _check_turn(report: Report) -> Decision | None:
    row, head = report.row, report.head
    if not row.correlation_id:
        return Decision(ReportAction.FAIL, "missing_tool_call_id")
    if head is None:
        return Decision(ReportAction.DEFER, "state_not_found", 2.0)
    if head.active_agent_turn_id != row.agent_turn_id or row.turn_epoch > head.turn_epoch:
        return Decision(ReportAction.CONSUME, "another_turn")
    if head.status not in (HeadStatus.RUNNING, HeadStatus.SUSPENDED):
        return Decision(ReportAction.CONSUME, "turn_not_waiting")
    return None


def _check_payload(payload: Mapping[str, Any]) -> Decision | None:
    if not _PAYLOAD.issuperset(payload):
        return Decision(ReportAction.FAIL, "invalid_payload")
    if not payload.get("tool_result_card_id"):
        return Decision(ReportAction.FAIL, "missing_tool_result_card")
    if payload.get("after_execution") not in tuple(AfterExecution):
        return Decision(ReportAction.FAIL, "invalid_after_execution")
    return None


def _check_card(report: Report) -> Decision | None:
    card = report.card
    if card is None:
        return Decision(ReportAction.DEFER, "card_not_found", 1.5)
    if card.type != CardType.TOOL_RESULT or card.tool_call_id != report.row.correlation_id:
        return Decision(ReportAction.FAIL, "wrong_tool_result_card")
    return None if card.step_id else Decision(ReportAction.FAIL, "card_without_step")


def _check_wait(report: Report) -> Decision:
    if report.wait is None:
        return Decision(ReportAction.CONSUME, "not_waited_for")
    if not report.wait.is_open:
        return Decision(ReportAction.CONSUME, "already_applied")
    if report.wait.tool_name in QUESTIONS:  # of a check, which belongs to no call
        return Decision(ReportAction.APPLY)
    if report.thought is None or not report.thought.tool_calls:
        return Decision(ReportAction.FAIL, "missing_thought")
    return Decision(ReportAction.APPLY)


@dataclass(frozen=True, slots=True)
class Handled:
    """What follows the commit of a message: a turn to run, results and events to publish, a turn that ended."""

    state: TurnState | None = None
    results: tuple[L0Result, ...] = ()
    events: tuple[Message, ...] = ()
    ended: Head | None = None
    retry_ms: int | None = None


@dataclass(frozen=True)
class MessageHandler:
    """The transactions of one worker's messages."""

    services: WorkerServices

    def handle(self, tx: Transaction, row: InboxRow) -> Handled:
        """Do what a claimed message asks for."""
        if row.message_type in (MessageType.TURN, MessageType.UI_ACTION):
            return self._enter(tx, row)
        if row.message_type is MessageType.STOP:
            return self._stop(tx, row)
        return self._handle_report(tx, row)

    def give_up(self, tx: Transaction, row: InboxRow, why: str) -> Handled:
        """Refuse a message that cannot be handled, and fail its turn, so that nobody waits for it forever."""
        return self._fail_or_refuse(tx, row, INTERNAL_ERROR, why)

    def defer(self, tx: Transaction, row: InboxRow, reason: str, delay: float = 1.0) -> Handled:
        """Handle the message again later; after `max_defers` times give it up."""
        if row.retry_count >= self.services.limits.max_defers:
            return self._fail_or_refuse(tx, row, RETRIES_EXHAUSTED, f"deferred too often: {reason}")
        wait_ms = int(max(delay, self.services.limits.defer.delay(row.retry_count + 1)) * 1000)
        inbox.defer(tx, row.project_id, row.inbox_id, wait_ms, reason)
        return Handled(retry_ms=wait_ms)

    def take_over(self, tx: Transaction, lost: Head, dead: Sequence[str]) -> Handled:
        """Continue a turn whose worker was lost, from its cards."""
        turn = TurnRef(lost.project_id, lost.agent_id, lost.active_agent_turn_id or "", lost.turn_epoch)
        taken = self.services.engine.takeover(tx, turn, self.services.owner, dead=dead)
        if not taken.accepted:
            return Handled()
        if taken.payload.get("failed"):
            return Handled(results=(taken,), ended=lost)
        head: Head = taken.payload["head"]
        try:
            state = self.services.states.reload(tx, head, new_id("step"))
        except InputError as error:
            return self._unreadable(tx, head, None, error)
        if isinstance(action := next_action(state.output, state.turn_id), CallModel):
            open_step(tx, head, state.step_id)  # the step in which the model was called is lost
        else:
            state.step_id = action.step_id
            close_step(tx, head, StepEnd(state.step_id, StepStatus.TOOL_DISPATCHED))
        return Handled(state)

    def load(self, tx: Transaction, head: Head, step_id: str, cards: Sequence[Row] | None = None) -> Handled:
        """The state of a turn that was entered; a turn whose profile or task cannot be read fails."""
        try:
            return Handled(self.services.states.load(tx, head, step_id, cards))
        except InputError as error:
            return self._unreadable(tx, head, step_id, error)

    def load_entered(self, tx: Transaction, turn: EnteredTurn) -> Handled:
        return self.load(tx, turn.head, turn.step_id, turn.cards)

    def _unreadable(self, tx: Transaction, head: Head, step_id: str | None, error: InputError) -> Handled:
        why = str(error)
        step = None if step_id is None else StepEnd(step_id, StepStatus.FAILED, error=why)
        result = fail_turn(tx, head, error=why, error_code="profile_not_found", step=step)
        return Handled(results=(result,), ended=head)

    # -- a turn begins ----------------------------------------------------------------------------------------

    def _enter(self, tx: Transaction, row: InboxRow) -> Handled:
        head = heads.read_head(tx, row.project_id, row.agent_id)
        made = 0 if head is None else head.turn_epoch
        if head is None or not 0 < row.turn_epoch <= made:
            why = f"turn {row.agent_turn_id} has the epoch {row.turn_epoch}; L0 has made {made} for {row.agent_id}"
            inbox.refuse(tx, row.project_id, row.inbox_id, why)
            return Handled()
        if not is_dispatched_by(head, row):
            inbox.consume(tx, row.project_id, row.inbox_id)  # the turn has begun, or is over
            return Handled()
        step_id, owner = new_id("step"), self.services.owner
        lease_ms = self.services.engine.limits.lease_ms
        running = enter_running(
            tx, head, inbox_id=row.inbox_id, owner=owner, step_id=step_id, lease_ms=lease_ms
        )
        return self.load(tx, running, step_id)

    # -- a tool answered --------------------------------------------------------------------------------------

    def _handle_report(self, tx: Transaction, row: InboxRow) -> Handled:
        report = self._read_report(tx, row)
        decision = decide(report)
        if decision.action is ReportAction.APPLY:
            assert report.head is not None and report.card is not None
            return self._apply(tx, row, report.head, report.card)
        if decision.action is ReportAction.DEFER:
            return self.defer(tx, row, decision.reason, decision.delay)
        if decision.action is ReportAction.FAIL:
            why = f"a report broke the protocol: {decision.reason}"
            return self._fail_or_refuse(tx, row, decision.reason, why)
        inbox.consume(tx, row.project_id, row.inbox_id)
        return Handled()

    def _read_report(self, tx: Transaction, row: InboxRow) -> Report:
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        named = row.payload.get("tool_result_card_id")
        card = find_cards(tx, row.project_id, [named]).get(named) if isinstance(named, str) else None
        waits = [] if head is None else heads.read_waiting(tx, head)
        wait = next((wait for wait in waits if wait.tool_call_id == row.correlation_id), None)
        return Report(row, head, card, wait, None if card is None else self._thought(tx, row, card))

    def _thought(self, tx: Transaction, row: InboxRow, card: Card) -> Card | None:
        found = tx.one(Q.thought_of_step, project=row.project_id, turn=row.agent_turn_id, step=card.step_id)
        return None if found is None else card_of(found)

    def _apply(self, tx: Transaction, row: InboxRow, head: Head, card: Card) -> Handled:
        result = {
            "inbox_id": row.inbox_id,
            "tool_call_id": row.correlation_id or "",
            "tool_result_card_id": card.card_id,
        }
        if head.status is HeadStatus.RUNNING:  # other tools of the step are still running in its worker
            apply_early(tx, head, **result)
            return Handled()
        applied = apply_result(tx, head, **result)
        if applied.remaining:
            event = state_event(applied.head, activity=Activity.AWAITING_TOOL_RESULT)
            return Handled(events=(event,))
        return self._resume(tx, applied.head, card.step_id)

    def _resume(self, tx: Transaction, head: Head, suspended_step: str) -> Handled:
        """All results are applied: the turn runs on, or one of the results ends it."""
        loaded = self.load(tx, head, suspended_step)
        if (state := loaded.state) is None:
            return loaded
        if has_open_calls(state):
            return self._call_approved(tx, head, suspended_step)
        limits, ended = self.services.engine.limits, StepEnd(suspended_step)
        writer = CardWriter(head, suspended_step, limits)
        following = after_step(state, (), writer, ended, self.services.limits)
        if isinstance(following, Ending):
            return Handled(results=(finish_turn(tx, state, following, limits).result,), ended=head)
        step_id = new_id("step")
        running = resume(
            tx,
            head,
            owner=self.services.owner,
            step_id=step_id,
            cards=following,
            ended=ended,
            lease_ms=limits.lease_ms,
        )
        state.advance(running, following, step_id)
        return Handled(state)

    def _call_approved(self, tx: Transaction, head: Head, step_id: str) -> Handled:
        """The turn goes on within its step: a person has answered, and the calls are made now, or refused."""
        state = self.services.states.reload(tx, head, step_id)
        ended = StepEnd(step_id, StepStatus.TOOL_DISPATCHED)
        lease_ms = self.services.engine.limits.lease_ms
        running = resume(tx, head, owner=self.services.owner, step_id=None, ended=ended, lease_ms=lease_ms)
        state.step_id = step_id
        state.advance(running)
        return Handled(state)

    def _fail_or_refuse(self, tx: Transaction, row: InboxRow, code: str, why: str) -> Handled:
        """Fail the turn of a message; a message whose turn is not active is refused."""
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        if head is None or head.active_agent_turn_id != row.agent_turn_id:
            inbox.refuse(tx, row.project_id, row.inbox_id, why)
            return Handled()
        result = fail_turn(tx, head, error=why, error_code=code, inbox_id=row.inbox_id)
        return Handled(results=(result,), ended=head)

    # -- a turn is to stop ------------------------------------------------------------------------------------

    def _stop(self, tx: Transaction, row: InboxRow) -> Handled:
        head = heads.read_head(tx, row.project_id, row.agent_id, lock=True)
        if head is None or head.active_agent_turn_id != row.agent_turn_id or head.turn_epoch < row.turn_epoch:
            inbox.consume(tx, row.project_id, row.inbox_id)
            return Handled()
        reason = str(row.payload.get("reason") or "stopped")
        result = stop_turn(tx, head, reason=reason, inbox_id=row.inbox_id)
        return Handled(results=(result, *_stop_children(tx, head, reason)), ended=head)


def _stop_children(tx: Transaction, head: Head, reason: str) -> list[L0Result]:
    """Stop every turn that this one enqueued; those do the same with theirs."""
    context = TurnContext.root(head.project_id, "sys.stop", head.active_channel_id or "public")
    found = []
    for edge in edges_of_turn(tx, head.project_id, head.active_agent_turn_id or ""):
        if edge.primitive == Primitive.ENQUEUE:
            turn = TurnRef(head.project_id, edge.target_agent_id, edge.target_agent_turn_id)
            why = {"reason": f"its parent was stopped: {reason}"}
            found.append(stop(tx, context, AddressIntent(turn, MessageType.STOP, why)))
    return found
