"""The summary of what no longer fits of a session, made by a model before the first step of a turn."""

from __future__ import annotations

import logging

from afl.models import Message as Said
from afl.models import ModelError, Reply, Request
from afl.models.content import Content, described
from afl.models.messages import Text, ToolResult, ToolUse
from afl.turns.budgets.accounts import BudgetSpent
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import NewCard
from afl.turns.sessions.history import Unsummarized
from afl.turns.statuses import CardType
from afl.turns.transitions import note
from afl.turns.worker.conversation import messages
from afl.turns.worker.metering import metered
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.turn_state import TurnState

_log = logging.getLogger("afl.turns")
_MOST_TOKENS = 1024
_SYSTEM = (
    "You summarize a conversation between a user and an assistant, for the assistant, who will not see it again. "
    "Keep facts, names, numbers, decisions, open questions and wishes of the user. Answer with the summary alone."
)
_HEADING = "Summary of the conversation so far:\n"


async def summarize(services: WorkerServices, state: TurnState) -> None:
    """Store the summary that a turn needs, and let the turn read it. Without one it reads the last turns alone."""
    wanted, state.unsummarized = state.unsummarized, None
    if wanted is None:
        return
    try:
        reply = await metered(services, state, summary_request(state, wanted), None, "/summary")
    except (ModelError, BudgetSpent) as error:
        _log.warning("turn %s goes on without a summary of its session: %s", state.turn_id, error)
        return
    card, limits = summary_card(state, wanted, reply), services.engine.limits
    head = await services.store(
        state.turn_id, lambda tx: note(tx, state.head, cards=[card], lease_ms=limits.lease_ms, limits=limits)
    )
    state.advance(head, [card])
    stored = state.output[-1]
    state.context = [stored, *(each for each in state.context if each.type != CardType.SUMMARY)]


def summary_request(state: TurnState, wanted: Unsummarized) -> Request:
    """What the model is asked for."""
    said = [card for turn in wanted.turns for card in turn.cards]
    text = "\n".join(line for message in messages(said) for line in _lines(message))
    known = f"{wanted.known}\n\nWhat followed:\n" if wanted.known else ""
    llm = state.llm
    return Request(
        (Said.user(known + text),),
        system=_SYSTEM,
        model=wanted.model or llm.model,
        max_tokens=min(_MOST_TOKENS, llm.max_tokens),
    )


def summary_card(state: TurnState, wanted: Unsummarized, reply: Reply) -> NewCard:
    """The card that stands for the turns before `up_to`, in this turn and in later ones of the session."""
    return NewCard(
        CardType.SUMMARY,
        contents.text(_HEADING + reply.text.removeprefix(_HEADING)),
        state.head.agent_id,
        role="user",
        agent_turn_id=state.turn_id,
        step_id=state.step_id,
        metadata={"up_to": wanted.up_to},
    )


def _lines(message: Said) -> list[str]:
    found = []
    for block in message.content:
        match block:
            case Text(text):
                found.append(f"{message.role}: {text}")
            case ToolUse(_, name, input):
                found.append(f"{message.role} called {name} with {dict(input)}")
            case ToolResult(_, content, _, files):
                found.append(" ".join([f"the tool answered: {content}", *map(described, files)]))
            case _ if isinstance(block, Content):
                found.append(f"{message.role} gave {described(block)}")
    return found
