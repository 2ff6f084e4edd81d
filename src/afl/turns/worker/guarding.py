"""Where a turn runs the checks of its agent: before its first call of the model, and on what the model says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from afl.models import Reply
from afl.models.messages import Text
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.guardrails import Refuse, Verdict
from afl.turns.statuses import CardType
from afl.turns.tools.outcome import failed
from afl.turns.transitions import note
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.toolkit import APPROVABLE, Call, Route
from afl.turns.worker.turn_state import TurnState

INPUT_REFUSED = "input_refused"
OUTPUT_REFUSED = "output_refused"
CALL_REFUSED = "call_refused"
REFUSED = "refused"  # in the metadata of a card that takes the place of what must not be read
REWRITES = "rewrites"  # in the metadata of a card: the card whose text it replaces


@dataclass(frozen=True, slots=True)
class InputRefused:
    """The turn must not begin; `card` has later turns read the reason in place of what was asked."""

    reason: str
    card: NewCard


async def guard_input(services: WorkerServices, state: TurnState) -> InputRefused | Verdict | None:
    """Check what a turn is asked, before its model is called first. What a check rewrites is stored.

    A verdict: a person is to be asked before.
    """
    names, asked = state.profile.checks.input, _instruction(state)
    if not names or asked is None or _has_begun(state):
        return None
    verdict = await services.toolbox.checks.run(names, str(asked.content.get("text", "")))
    if verdict.refusal is not None:
        return InputRefused(verdict.refusal.reason, refused_input(state, verdict.refusal.reason, verdict.by))
    if verdict.ask is not None:
        return verdict
    if verdict.is_changed:
        card, limits = input_card(state, str(verdict.value), verdict.by), services.engine.limits
        head = await services.write(
            lambda tx: note(tx, state.head, cards=[card], lease_ms=limits.lease_ms, limits=limits)
        )
        state.advance(head, [card])
    return None


async def guard_output(services: WorkerServices, state: TurnState, value: Any) -> Verdict:
    """Check what a turn is about to deliver: text, or the result that the model submitted."""
    return await services.toolbox.checks.run(state.profile.checks.output, value)


async def guard_calls(services: WorkerServices, state: TurnState, calls: Sequence[Call]) -> list[Call]:
    """The calls with the arguments that the checks allow; a refused one is answered with the reason."""
    names = state.profile.checks.tools
    if not names:
        return list(calls)
    return [await _guarded(services, names, call) for call in calls]


async def _guarded(services: WorkerServices, names: Sequence[str], call: Call) -> Call:
    if call.route in (Route.REFUSED, Route.SUBMIT):
        return call
    verdict = await services.toolbox.checks.run(names, dict(call.arguments), call.name)
    if verdict.refusal is not None:
        return replace(call, route=Route.REFUSED, refusal=failed(CALL_REFUSED, verdict.refusal.reason))
    if verdict.ask is not None and call.route not in APPROVABLE:
        why = f"a person would have to approve it, and nobody can be asked about {call.name}"
        return replace(call, route=Route.REFUSED, refusal=failed(CALL_REFUSED, why))
    return replace(call, arguments=verdict.value, ask=verdict.ask) if verdict.is_changed else call


def stored_arguments(state: TurnState, calls: Sequence[Call]) -> list[Call]:
    """Calls of functions of this process with the arguments that were stored, after all checks."""
    if not state.profile.checks.tools:
        return list(calls)
    stored = {card.tool_call_id: card for card in state.own if card.type == CardType.TOOL_CALL}
    return [
        replace(call, arguments=stored[call.tool_call_id].content["arguments"])
        if call.route is Route.LOCAL and call.tool_call_id in stored
        else call
        for call in calls
    ]


def with_text(reply: Reply, text: str) -> Reply:
    """A reply that says something else; what its provider wanted back with the old words goes."""
    return replace(reply, content=(Text(text),))


def refused_output(state: TurnState, value: Any, refusal: Refuse, by: Sequence[str]) -> NewCard:
    """What was not delivered, for people: no model reads it."""
    about = {"refused": value, "reason": refusal.reason, "by": list(by)}
    return guard_card(state, contents.json_data(about), {})


def feedback(state: TurnState, refusal: Refuse) -> NewCard:
    """The note to a model that may try again."""
    told = f"Your answer was refused, and nobody has read it: {refusal.reason}. Answer again."
    return replace(guard_card(state, contents.text(told), {}), type=CardType.JUDGE_FEEDBACK)


def input_card(state: TurnState, text: str, by: Sequence[str]) -> NewCard:
    """What models read in place of what the turn was asked."""
    asked = _instruction(state)
    about = {REWRITES: "" if asked is None else asked.card_id, "by": list(by)}
    return guard_card(state, contents.text(text), about)


def refused_input(state: TurnState, reason: str, by: Sequence[str]) -> NewCard:
    """What later turns read in place of what the turn was asked, and of its files."""
    card = input_card(state, f"(This was refused: {reason})", by)
    return replace(card, metadata={**card.metadata, REFUSED: True})


def guard_card(state: TurnState, content: Any, about: dict[str, Any]) -> NewCard:
    """A card for people."""
    return NewCard(
        CardType.GUARDRAIL,
        content,
        state.head.agent_id,
        agent_turn_id=state.turn_id,
        step_id=state.step_id,
        metadata=about,
    )


def _instruction(state: TurnState) -> Card | None:
    asked = [card for card in state.context if card.type == CardType.TASK_INSTRUCTION]
    return asked[-1] if asked else None


def _has_begun(state: TurnState) -> bool:
    """Whether the model has been called, or what was asked has been rewritten already."""
    return any(card.type in (CardType.AGENT_THOUGHT, CardType.GUARDRAIL) for card in state.own)
