"""How a step leaves the turn: suspended, in its next step, or over. One transaction, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from afl.kernel.database import Transaction
from afl.kernel.errors import FencedError, InputError
from afl.turns.cardbox.card_store import find_cards
from afl.turns.cardbox.cards import CONTROL, Card, NewCard
from afl.turns.intents import ToolWait
from afl.turns.message import Message
from afl.turns.model import Head, L0Result, Limits
from afl.turns.orchestration.child import ChildSource
from afl.turns.orchestration.forking import fork
from afl.turns.orchestration.performing import Performed
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import tool_subject
from afl.turns.statuses import CardType, StepStatus, TaskStatus
from afl.turns.store import heads
from afl.turns.store.heads import Ending
from afl.turns.store.steps import StepEnd
from afl.turns.tools.submit import SUBMIT_RESULT, Field, accepted_fields
from afl.turns.worker.limits import WorkerLimits
from afl.turns.worker.moves import Conclude, next_move
from afl.turns.worker.scene import Scene
from afl.turns.worker.toolkit import Call, Route, wait_seconds
from afl.turns.worker.writing import Writer

MAX_STEPS_REACHED = "max_steps_reached"
MISSING_FIELDS = "missing_fields"
INVALID_RESULT = "invalid_result"


@dataclass(frozen=True, slots=True)
class Work:
    """What a step came to: cards to write, and calls that others answer (`late`: they are sent with this)."""

    cards: Sequence[NewCard]
    end: StepEnd
    late: Sequence[Call] = ()


@dataclass(frozen=True, slots=True)
class Sent:
    """Calls that go out: what is waited for, with the cards of those that came to nothing."""

    waits: Sequence[ToolWait]
    cards: Sequence[NewCard]
    signals: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Early:
    """What became of calls that were sent while the turn ran on: answered by now, or still to be."""

    cards: Sequence[Card] = ()
    missing: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn is suspended on these calls."""

    head: Head
    cards: Sequence[NewCard]
    calls: Sequence[str]
    stored: int
    signals: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Stepped:
    """The turn is in its next step."""

    head: Head
    cards: Sequence[NewCard]
    step_id: str
    signals: tuple[Message, ...] = ()
    early: Sequence[Card] = ()  # in the box already


@dataclass(frozen=True, slots=True)
class Ended:
    """The turn is over."""

    result: L0Result
    ending: Ending
    cards: Sequence[NewCard]


Settled = Waiting | Stepped | Ended


def settle(tx: Transaction, scene: Scene, work: Work, limits: Limits, bounds: WorkerLimits) -> Settled:
    """Write what a step came to, and bring the turn to where it is by that."""
    early = _early(tx, scene)
    sent = send(tx, scene, work, limits, bounds)
    full = replace(work, cards=sent.cards)
    if not sent.waits and not early.missing:
        return _go_on(tx, scene, full, early, sent.signals, limits, bounds)
    ended = replace(work.end, status=StepStatus.SUSPENDED)
    done = heads.suspend(
        tx,
        scene.head,
        waits=sent.waits,
        sent_before=len(early.missing),
        cards=sent.cards,
        ended=ended,
        limits=limits,
    )
    calls = [*early.missing, *(wait.tool_call_id for wait in sent.waits)]
    return Waiting(done.head, sent.cards, calls, done.stored, sent.signals)


def send(tx: Transaction, scene: Scene, work: Work, limits: Limits, bounds: WorkerLimits) -> Sent:
    """What the late calls of a step are to be sent with; a fork_join sets its children to work by this."""
    writer = Writer(scene.head, work.end.step_id, limits)
    cards, waits = list(work.cards), []
    signals: list[Message] = []
    for call in work.late:
        if call.route is Route.COMMAND:
            waits.append(_command(scene, call, cards, work.end.step_id, bounds))
            continue
        check_held(tx, scene.head)
        performed = fork(tx, source_of(scene, call, work.end.step_id, limits), call.arguments)
        signals += performed.signals
        if performed.outcome is not None:
            cards.append(writer.result(call, performed.outcome))
        else:
            waits.append(_fork(call, performed, work.end.step_id))
    return Sent(waits, cards, tuple(signals))


def _early(tx: Transaction, scene: Scene) -> Early:
    """The head is locked first: so what comes from now on finds the turn where this transaction leaves it."""
    if not scene.awaited:
        return Early()
    check_held(tx, scene.head)
    waits = [w for w in heads.read_waiting(tx, scene.head) if w.tool_call_id in scene.awaited]
    applied = [wait.tool_result_card_id or "" for wait in waits if not wait.is_open]
    found = find_cards(tx, scene.head.project_id, applied)
    return Early(list(found.values()), [wait.tool_call_id for wait in waits if wait.is_open])


def finish(tx: Transaction, scene: Scene, ending: Ending, limits: Limits) -> Ended:
    """The turn is over."""
    told = replace(ending, stats={**ending.stats, "steps": scene.head.steps})
    return Ended(heads.finish(tx, scene.head, told, limits), told, (*ending.cards, ending.deliverable))


def _go_on(
    tx: Transaction,
    scene: Scene,
    work: Work,
    early: Early,
    signals: tuple[Message, ...],
    limits: Limits,
    bounds: WorkerLimits,
) -> Settled:
    writer = Writer(scene.head, work.end.step_id, limits)
    following = after_step(scene, [*early.cards, *work.cards], writer, work.end, bounds)
    if isinstance(following, Ending):
        return finish(tx, scene, replace(following, cards=work.cards), limits)
    cards = [*work.cards, *following]
    step_id = new_id("step")
    head = heads.next_step(
        tx,
        scene.head,
        step_id=step_id,
        cards=cards,
        ended=work.end,
        lease_ms=limits.lease_ms,
        limits=limits,
    )
    return Stepped(head, cards, step_id, signals, early.cards)


def after_step(
    scene: Scene, added: Sequence[NewCard], writer: Writer, step: StepEnd, bounds: WorkerLimits
) -> Ending | list[NewCard]:
    """How the turn ends with a step that left nothing to wait for; else what its model is told before the next one."""
    own, required = [*scene.own, *added], scene.toolkit.required or ()
    notes: list[NewCard] = []
    move = next_move(own, scene.turn_id)
    if isinstance(move, Conclude):
        try:
            return conclusion(writer, move, step, required)
        except InputError as error:
            notes = [writer.must_have(required, str(error))]
    elif scene.is_action:
        return action_end(writer, own, step)
    misses = _misses([*own, *notes]) if required else []
    last = bounds.steps_left(scene.head.steps) == 0
    if len(misses) > bounds.corrections or (last and step.step_id in misses):
        return _unfulfilled(scene, writer, step, required, len(misses))
    return exhausted(scene, writer, step) if last else notes


def _misses(own: Sequence[NewCard]) -> list[str]:
    """The steps of a turn that came to an end without the required fields."""
    missed = [card.step_id for card in own if card.type == CardType.MUST_END_WITH or _is_refused_result(card)]
    return list(dict.fromkeys(missed))


def _is_refused_result(card: NewCard) -> bool:
    error = card.content.get("error") if card.type == CardType.TOOL_RESULT else None
    return card.function_name == SUBMIT_RESULT and error is not None and error["code"] == INVALID_RESULT


def _unfulfilled(
    scene: Scene, writer: Writer, step: StepEnd, required: Sequence[Field], attempts: int
) -> Ending:
    """The model was told often enough what its result must have."""
    names = ", ".join(each.name for each in required)
    why = f"the turn came to no result with the required fields {names}; attempts: {attempts}"
    content = heads.fallback_content(TaskStatus.FAILED, why, MISSING_FIELDS, scene.diagnostics)
    return Ending(
        TaskStatus.FAILED, writer.deliverable(content), error=why, error_code=MISSING_FIELDS, step=step
    )


def conclusion(
    writer: Writer, move: Conclude, step: StepEnd | None, required: Sequence[Field] = ()
) -> Ending:
    """A tool's result ends the turn: it is what the turn delivers. InputError: it lacks a required field."""
    card, status = move.ending.card, move.ending.status
    error = card.content.get("error")
    fulfils = required and status is TaskStatus.SUCCESS
    return Ending(
        status,
        writer.fields(result_fields(card, required)) if fulfils else writer.tool_answer(card.content),
        error=None if error is None else str(error.get("message")),
        error_code=None if error is None else str(error.get("code")),
        tool_result_card_id=card.card_id,
        step=step,
    )


def result_fields(card: Card, required: Sequence[Field]) -> list[dict[str, str]]:
    """What a tool answered as the fields that were asked for; InputError when one is missing."""
    result = card.content.get("result")
    if isinstance(result, Mapping):
        result = {name: value for name, value in result.items() if name != CONTROL}
    return accepted_fields({"result": result}, required)


def action_end(writer: Writer, own: Sequence[NewCard], step: StepEnd | None) -> Ending:
    """What a person asked for is done; whatever the tool says of going on, no model takes part in this turn."""
    result = next(card for card in reversed(own) if card.type == CardType.TOOL_RESULT)
    status = TaskStatus(result.content["status"])
    error = result.content.get("error")
    return Ending(
        status,
        writer.tool_answer(result.content),
        error=None if error is None else str(error.get("message")),
        error_code=None if error is None else str(error.get("code")),
        tool_result_card_id=result.card_id,
        step=step,
    )


def exhausted(scene: Scene, writer: Writer, step: StepEnd | None) -> Ending:
    """The steps are used up: what there is by now is delivered as incomplete, and the turn fails."""
    why = f"the turn took {scene.head.steps} steps without coming to a result"
    content = heads.fallback_content(TaskStatus.FAILED, why, MAX_STEPS_REACHED, scene.diagnostics)
    return Ending(
        TaskStatus.FAILED, writer.deliverable(content), error=why, error_code=MAX_STEPS_REACHED, step=step
    )


def _command(
    scene: Scene, call: Call, cards: Sequence[NewCard], step_id: str, bounds: WorkerLimits
) -> ToolWait:
    """A command, and how long its answer may take. Its arguments stand in the card of the call."""
    assert call.remote is not None
    head = scene.head
    card = next(
        card
        for card in (*cards, *scene.own)
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


def check_held(tx: Transaction, head: Head) -> None:
    """Lock the head, as it was read: whoever no longer holds the turn must not set anybody to work."""
    now = heads.read_head(tx, head.project_id, head.agent_id, lock=True)
    if now is None or now.gate != head.gate:
        raise FencedError(f"turn {head.active_agent_turn_id} of {head.agent_id} is no longer held here")


def source_of(scene: Scene, call: Call, step_id: str, limits: Limits) -> ChildSource:
    """The call of a built-in as those see it that serve it."""
    return ChildSource(scene.head, scene.profile.policy, step_id, call.tool_call_id, limits)


def _fork(call: Call, performed: Performed, step_id: str) -> ToolWait:
    return ToolWait(call.tool_call_id, call.name, step_id, performed.wait_ms)
