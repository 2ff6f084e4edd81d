"""The commit of a step, one transaction: the turn is then suspended, in its next step, or over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.models import Reply
from afl.models.messages import CUT_OFF
from afl.turns.cardbox.card_store import find_cards
from afl.turns.cardbox.cards import CONTROL, Card, NewCard
from afl.turns.intents import ToolWait
from afl.turns.message import Message
from afl.turns.model import Head, L0Result, Limits
from afl.turns.orchestration.builtins import perform
from afl.turns.orchestration.child import ChildSource
from afl.turns.orchestration.fork_join import FORK_JOIN, fork
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import tool_subject
from afl.turns.statuses import CardType, StepStatus, TaskStatus
from afl.turns.store.heads import check_held, read_waiting
from afl.turns.store.steps import StepEnd
from afl.turns.tools.expected import Expected
from afl.turns.tools.submit import SUBMIT_RESULT
from afl.turns.transitions import Ending, fallback_content, finish, next_step, note, suspend
from afl.turns.worker.approval import ask_person
from afl.turns.worker.card_writer import CardWriter
from afl.turns.worker.services import WorkerLimits
from afl.turns.worker.toolkit import Call, Route, wait_seconds
from afl.turns.worker.turn_state import CallTools, EndWithResult, Settle, TurnState, next_action

MAX_STEPS_REACHED = "max_steps_reached"
MISSING_FIELDS = "missing_fields"
INVALID_RESULT = "invalid_result"
MODEL_REFUSED = "model_refused"


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step produced: cards to write, built-ins to perform, and calls to send to other processes."""

    cards: Sequence[NewCard]
    end: StepEnd
    calls: Sequence[Call] = ()  # of this step that are not answered by `cards`

    @property
    def builtins(self) -> list[Call]:
        """The calls that the step's own transaction answers."""
        return [call for call in self.calls if call.route is Route.BUILTIN and call.name != FORK_JOIN]

    @property
    def awaited(self) -> list[Call]:
        """The calls whose answers the turn waits for."""
        return [
            call
            for call in self.calls
            if call.route in (Route.COMMAND, Route.APPROVAL)
            or (call.route is Route.BUILTIN and call.name == FORK_JOIN)
        ]


@dataclass(frozen=True, slots=True)
class SentCalls:
    """The wait set of the calls that are sent, all cards of the step, and the messages to publish."""

    waits: Sequence[ToolWait]
    cards: Sequence[NewCard]
    signals: Sequence[Message]


@dataclass(frozen=True, slots=True)
class TurnSuspended:
    """The turn waits for these calls."""

    head: Head
    cards: Sequence[NewCard]
    calls: Sequence[str]
    signals: Sequence[Message]


@dataclass(frozen=True, slots=True)
class NextStep:
    """The turn is in its next step."""

    head: Head
    cards: Sequence[NewCard]
    step_id: str
    signals: Sequence[Message] = ()
    applied: Sequence[Card] = ()  # results that arrived while the turn ran: they are in the box already


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over."""

    result: L0Result
    ending: Ending
    cards: Sequence[NewCard]
    signals: Sequence[Message] = field(default=())


StepOutcome = TurnSuspended | NextStep | TurnEnded


def commit_step(
    tx: Transaction, state: TurnState, step: StepResult, limits: Limits, bounds: WorkerLimits
) -> StepOutcome:
    """Write what a step produced, and the transition of the turn that follows from it."""
    applied, missing = _answers(tx, state)
    sent = send_calls(tx, state, step, limits, bounds)
    if not sent.waits and not missing:
        return _continue(tx, state, replace(step, cards=sent.cards), applied, sent.signals, limits, bounds)
    suspended = suspend(
        tx,
        state.head,
        waits=sent.waits,
        sent_before=len(missing),
        cards=sent.cards,
        ended=replace(step.end, status=StepStatus.SUSPENDED),
        limits=limits,
    )
    calls = [*missing, *(wait.tool_call_id for wait in sent.waits)]
    return TurnSuspended(suspended.head, sent.cards, calls, sent.signals)


def send_calls(
    tx: Transaction, state: TurnState, step: StepResult, limits: Limits, bounds: WorkerLimits
) -> SentCalls:
    """Perform the built-ins of a step, and prepare the calls that the turn waits for."""
    step_id = step.end.step_id
    writer = CardWriter(state.head, step_id, limits)
    cards, waits = list(step.cards), []
    signals: list[Message] = []
    if any(
        call.route is Route.BUILTIN for call in step.calls
    ):  # a worker that lost the turn must not enqueue
        check_held(tx, state.head)
    for call in step.builtins:
        performed = perform(tx, _source(state, call, step_id, limits), call.name, call.arguments)
        assert performed.outcome is not None
        cards.append(writer.result(call, performed.outcome))
        signals += performed.signals
    for call in step.awaited:
        if call.route is Route.COMMAND:
            waits.append(_command(state, call, cards, step_id, bounds))
            continue
        if call.route is Route.APPROVAL:
            waits.append(ask_person(tx, state.head, call, step_id))
            continue
        performed = fork(tx, _source(state, call, step_id, limits), call.arguments)
        signals += performed.signals
        if performed.outcome is not None:
            cards.append(writer.result(call, performed.outcome))
        else:
            waits.append(ToolWait(call.tool_call_id, call.name, step_id, performed.wait_ms))
    return SentCalls(waits, cards, signals)


def finish_turn(tx: Transaction, state: TurnState, ending: Ending, limits: Limits) -> TurnEnded:
    """End the turn."""
    stats = {**ending.stats, "steps": state.head.steps}
    if ending.step is not None and (reason := ending.step.metadata.get("stop_reason")) in CUT_OFF:
        stats["stop_reason"] = reason  # what is delivered was cut off
    ending = replace(ending, stats=stats)
    result = finish(tx, state.head, ending, limits)
    return TurnEnded(result, ending, (*ending.cards, ending.deliverable))


def _answers(tx: Transaction, state: TurnState) -> tuple[list[Card], list[str]]:
    """Of calls that were sent while the turn ran on: the results that were applied, and the calls still open.

    The head is locked first, so that a result that arrives from now on finds the turn as this transaction leaves it.
    """
    if not state.awaited:
        return [], []
    check_held(tx, state.head)
    waits = [w for w in read_waiting(tx, state.head) if w.tool_call_id in state.awaited]
    applied = [wait.tool_result_card_id or "" for wait in waits if not wait.is_open]
    found = find_cards(tx, state.head.project_id, applied)
    return list(found.values()), [wait.tool_call_id for wait in waits if wait.is_open]


def _continue(
    tx: Transaction,
    state: TurnState,
    step: StepResult,
    applied: Sequence[Card],
    signals: Sequence[Message],
    limits: Limits,
    bounds: WorkerLimits,
) -> StepOutcome:
    writer = CardWriter(state.head, step.end.step_id, limits)
    if has_open_calls(state, [*applied, *step.cards]):  # calls that were approved meanwhile
        end = replace(step.end, status=StepStatus.TOOL_DISPATCHED)
        head = note(tx, state.head, cards=step.cards, step=end, lease_ms=limits.lease_ms, limits=limits)
        return NextStep(head, step.cards, state.step_id, signals, applied)
    following = after_step(state, [*applied, *step.cards], writer, step.end, bounds)
    if isinstance(following, Ending):
        return replace(finish_turn(tx, state, replace(following, cards=step.cards), limits), signals=signals)
    cards = [*step.cards, *following]
    step_id = new_id("step")
    head = next_step(
        tx,
        state.head,
        step_id=step_id,
        cards=cards,
        ended=step.end,
        lease_ms=limits.lease_ms,
        limits=limits,
    )
    return NextStep(head, cards, step_id, signals, applied)


def has_open_calls(state: TurnState, added: Sequence[NewCard] = ()) -> bool:
    """Whether a person has answered what was not acted on yet: calls to be made or refused, or a check's question."""
    return isinstance(next_action([*state.own, *added], state.turn_id), (CallTools, Settle))


def after_step(
    state: TurnState, added: Sequence[NewCard], writer: CardWriter, step: StepEnd, bounds: WorkerLimits
) -> Ending | list[NewCard]:
    """The end of the turn after a step with no open calls; else the cards that its model reads before the next step."""
    own, expected = [*state.own, *added], state.toolkit.expected or Expected()
    notes: list[NewCard] = []
    action = next_action(own, state.turn_id)
    if isinstance(action, EndWithResult):
        try:
            return _end_with(writer, action.card, action.status, step, expected)
        except InputError as error:
            notes = [writer.must_have(expected.asked, str(error))]
    elif state.is_action:
        return end_action(writer, own, step)
    misses = _misses([*own, *notes]) if expected.is_required else {}
    last = bounds.steps_left(state.head.steps) == 0
    if len(misses) > bounds.corrections or (last and step.step_id in misses):
        return _without_result(state, writer, expected, misses, step)
    return exhausted(state, writer, step) if last else notes


def _without_result(
    state: TurnState, writer: CardWriter, expected: Expected, misses: Mapping[str, NewCard], step: StepEnd
) -> Ending:
    """The end of a turn whose model did not come to the result that was asked for, often enough."""
    if expected.type is None:
        names = ", ".join(each.name for each in expected.fields)
        why = f"the turn came to no result with the required fields {names}; attempts: {len(misses)}"
        return failure(state, writer, MISSING_FIELDS, why, step)
    error = list(misses.values())[-1].content.get("error")
    why = f"the turn came to no {expected.type.name}; attempts: {len(misses)}"
    if error is None:
        return failure(state, writer, MISSING_FIELDS, f"{why}, the last one without a result", step)
    return failure(state, writer, INVALID_RESULT, f"{why}; the last one: {error['message']}", step)


def end_action(writer: CardWriter, own: Sequence[NewCard], step: StepEnd) -> Ending:
    """The end of a turn in which a person called a tool, whatever the tool's after_execution is."""
    result = next(card for card in reversed(own) if card.type == CardType.TOOL_RESULT)
    return _end_with(writer, result, TaskStatus(result.content["status"]), step)


def exhausted(state: TurnState, writer: CardWriter, step: StepEnd) -> Ending:
    """The steps are used up: the turn fails with an incomplete deliverable."""
    why = (
        f"the turn took {state.head.steps} steps without coming to a result; "
        "a worker allows more with --max-steps (in Python: WorkerLimits(max_steps=...))"
    )
    return failure(state, writer, MAX_STEPS_REACHED, why, step)


def failure(state: TurnState, writer: CardWriter, code: str, why: str, step: StepEnd) -> Ending:
    """The end of a turn that fails, with a fallback deliverable."""
    content = fallback_content(TaskStatus.FAILED, why, code, state.diagnostics)
    return Ending(TaskStatus.FAILED, writer.deliverable(content), error=why, error_code=code, step=step)


def refused_by_model(
    state: TurnState, writer: CardWriter, reply: Reply, thought: NewCard, step: StepEnd
) -> Ending:
    """The end of a turn whose model, or its provider, does not answer for reasons of safety."""
    checked = bool(state.profile.checks.output)  # unchecked words are told to nobody
    why = f"the model {reply.model or state.llm.model} refused: {reply.text or 'no reason given'}"
    if checked:
        why = f"the model {reply.model or state.llm.model} refused"
    step = replace(step, status=StepStatus.FAILED, error=why)
    kept = [thought] if reply.text and not checked else []
    return replace(failure(state, writer, MODEL_REFUSED, why, step), cards=kept)


def _end_with(
    writer: CardWriter, card: NewCard, status: TaskStatus, step: StepEnd, expected: Expected | None = None
) -> Ending:
    """A tool's result is what the turn delivers. InputError: it is not what was asked for."""
    error = card.content.get("error")
    checked = expected is not None and expected.is_required and status is TaskStatus.SUCCESS
    return Ending(
        status,
        writer.deliverable(_accepted(card, expected))
        if expected is not None and checked
        else writer.tool_answer(card.content),
        error=None if error is None else str(error.get("message")),
        error_code=None if error is None else str(error.get("code")),
        tool_result_card_id=card.card_id,
        step=step,
    )


def _accepted(card: NewCard, expected: Expected) -> dict[str, Any]:
    result = card.content.get("result")
    if isinstance(result, Mapping):
        result = {name: value for name, value in result.items() if name != CONTROL}
    return expected.accept({"result": result})


def _misses(own: Sequence[NewCard]) -> dict[str, NewCard]:
    """The steps of a turn that tried to end without the result that was asked for, each with its refusal."""
    refused = [card for card in own if card.type == CardType.MUST_END_WITH or _is_refused_result(card)]
    return {card.step_id: card for card in refused}


def _is_refused_result(card: NewCard) -> bool:
    error = card.content.get("error") if card.type == CardType.TOOL_RESULT else None
    return card.function_name == SUBMIT_RESULT and error is not None and error["code"] == INVALID_RESULT


def _command(
    state: TurnState, call: Call, cards: Sequence[NewCard], step_id: str, bounds: WorkerLimits
) -> ToolWait:
    """The command of a call, and the time for its answer. Its arguments are in the card of the call."""
    assert call.remote is not None
    head = state.head
    card = next(
        card
        for card in (*cards, *state.own)
        if card.type == CardType.TOOL_CALL and card.tool_call_id == call.tool_call_id
    )
    subject = tool_subject(
        call.remote.target_subject, head.project_id, head.active_channel_id or "", head.agent_id
    )
    payload = {
        "tool_name": call.name,
        "after_execution": str(call.remote.after_execution),
        "tool_call_card_id": card.card_id,
    }
    seconds = bounds.wait_seconds([wait_seconds(call.remote)])
    return ToolWait(call.tool_call_id, call.name, step_id, int(seconds * 1000), subject, payload)


def _source(state: TurnState, call: Call, step_id: str, limits: Limits) -> ChildSource:
    return ChildSource(state.head, state.profile.policy, step_id, call.tool_call_id, limits)
