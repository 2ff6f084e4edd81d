"""Pages of turns: lists, transcripts, and the words of models as they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from afl.dashboard.live import WATCHERS, BackgroundPoll, Look, Sources, Watcher
from afl.dashboard.pages.parts import Part, ask_soon, live_page, of_part, text_of
from afl.dashboard.pages.search import SEARCHES
from afl.dashboard.pages.tasks import skipped
from afl.dashboard.rendering import flash_redirect, fragment, page
from afl.dashboard.turn_streams import stream_words
from afl.dashboard.wording import segment
from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.operations.search import search_turns
from afl.operations.turn import turn_reasons, turn_view, turns
from afl.operations.turn.turn_store import TurnStore, reading
from afl.operations.turn.turn_view import CardView, StepView, TurnView
from afl.operations.turn.turns import AgentLine
from afl.turns.store.turn_queries import pulse


async def words(request: Request) -> Response:
    """Pieces of text of one turn, for as long as the browser listens."""
    return await stream_words(request, request.path_params["turn"])


THOUGHT, CALL, RESULT, DELIVERABLE = "agent.thought", "tool.call", "tool.result", "task.deliverable"
_WORDS = {
    "task.instruction": "asks",
    "task.result_fields": "asks for these fields",
    DELIVERABLE: "delivers",
    "agent.error": "failed",
    THOUGHT: "says",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: a card, or a call with the card that answers it. `step` heads those that follow it."""

    kind: str  # step, card or call
    who: str = ""
    word: str = ""
    card: CardView | None = None
    value: Any = None  # of a call's arguments, as data
    result: CardView | None = None
    answer: Any = None
    step: StepView | None = None


def transcript(view: TurnView) -> list[Entry]:
    """Everything, the context first; each step before its first card, each result with its call."""
    results = {card.call: card for card in view.cards if card.type == RESULT and card.call}
    calls = {card.call for card in view.cards if card.type == CALL}
    delivered = {card.text for card in view.cards if card.type == DELIVERABLE}
    shown: set[str] = set()
    entries = [_card(card) for card in view.context]
    for card in view.cards:
        if card.step not in shown and card.type != RESULT:
            entries += [Entry("step", step=step) for step in view.steps_until(card.step, shown)]
        if card.type == CALL:
            entries.append(_call(card, results.get(card.call)))
        elif card.type == RESULT and card.call in calls:
            continue  # it stands with its call
        elif card.type != THOUGHT or (card.text and card.text not in delivered):
            entries.append(_card(card))
    entries += [Entry("step", step=step) for step in view.steps if step.step not in shown]
    return entries


def _card(card: CardView) -> Entry:
    return Entry("card", card.author or card.tool, _WORDS.get(card.type, card.type), card)


def _call(card: CardView, result: CardView | None) -> Entry:
    answer = _data(result.text) if result is not None else None
    return Entry("call", card.author, "calls", card, _data(card.text), result, answer)


def _data(text: str) -> Any:
    """Text that is JSON as data, and other text as it is."""
    return codec.value_of(text)


TURNS = Part(
    "turns",
    "Turns",
    "Agents that converse: each has an inbox and one turn at a time, in which it thinks, calls tools and delivers.",
    (
        ("Talk to an agent that a module declares", "afl turns chat --module agents.py"),
        ("Serve a module's agents to everybody", "afl turns worker agents.py"),
    ),
)
_PAGE = 30


async def _overview(request: Request) -> dict[str, Any]:
    skip = skipped(request)
    agents = await ask_soon(request, turns.agents)
    found = await ask_soon(request, turns.turns, limit=_PAGE + 1, skip=skip)
    return {
        "agents": agents,
        "turns": found[:_PAGE],
        "earlier": f"/turns?skip={max(0, skip - _PAGE)}" if skip else "",
        "later": f"/turns?skip={skip + _PAGE}" if len(found) > _PAGE else "",
        "source": f"/turns/fragment/lists?skip={skip}",
    }


@of_part(TURNS)
async def agent(request: Request) -> Response:
    shown = await _agent(request)
    if shown["agent"].session:  # what is sent to it, is sent to the session
        return RedirectResponse(f"/sessions/{segment(shown['agent'].session)}")
    return await page(request, "turns_agent.html", active="turns", **shown)


@of_part(TURNS)
async def agent_lists(request: Request) -> Response:
    return await fragment(request, "turns_agent_lists.html", **await _agent(request))


async def _agent(request: Request) -> dict[str, Any]:
    name, skip = request.path_params["agent"], skipped(request)
    found = await ask_soon(request, turns.turns, name, limit=_PAGE + 1, skip=skip)
    agents = await ask_soon(request, turns.agents, sessions=True)
    here = f"/agents/{quote(name, safe='')}"
    return {
        "agent": _named(agents, name),
        "turns": found[:_PAGE],
        "earlier": f"{here}?skip={max(0, skip - _PAGE)}" if skip else "",
        "later": f"{here}?skip={skip + _PAGE}" if len(found) > _PAGE else "",
        "source": f"{here}/fragment/lists?skip={skip}",
    }


def _named(agents: list[AgentLine], name: str) -> AgentLine:
    found = next((each for each in agents if each.agent == name), None)
    if found is None:
        raise InputError(f"there is no agent {name!r}")
    return found


async def _turn(request: Request) -> dict[str, Any]:
    view = await ask_soon(request, turn_view.show, request.path_params["turn"])
    reason = None
    if not view.turn.over:
        reason = await ask_soon(request, turn_reasons.why, view.turn.turn)
    return {
        "view": view,
        "turn": view.turn,
        "entries": transcript(view),
        "reason": reason,
    }


@of_part(TURNS)
async def send(request: Request) -> Response:
    """Ask an agent for a turn; `after` lets it read what an earlier turn read and wrote."""
    form = await request.form()
    name, text = request.path_params["agent"], text_of(form, "text")
    back = f"/agents/{quote(name, safe='')}"
    if not text:
        return flash_redirect(request, back, "There was no text to send.", "bad")
    try:
        sent = await ask_soon(request, turns.send, name, text, after=text_of(form, "after"))
    except InputError as error:
        return flash_redirect(request, back, str(error), "bad")
    return flash_redirect(request, f"/turns/{quote(sent.agent_turn_id, safe='')}", f"Sent to {name}.")


@of_part(TURNS)
async def stop(request: Request) -> Response:
    """Stop a turn and all that it set off."""
    form = await request.form()
    name = request.path_params["turn"]
    reason = text_of(form, "reason") or "stopped by an operator"
    back = f"/turns/{quote(name, safe='')}"
    try:
        stopped = await ask_soon(request, turns.stop, name, reason)
    except InputError as error:
        return flash_redirect(request, back, str(error), "bad")
    if stopped.late:
        return flash_redirect(request, back, "It had already ended.", "note")
    return flash_redirect(request, back, "The turn is being stopped, with everything it started.")


@contextmanager
def _opened(sources: Sources) -> Iterator[Look]:
    project = sources.settings.project
    with reading(TurnStore(sources.settings)) as database:
        yield lambda turn: database.read(lambda tx: pulse(tx, project, turn))


_LOOKOUT = BackgroundPoll(_opened, every_seconds=0.1)
WATCHERS["turns"] = WATCHERS["turn"] = Watcher(_LOOKOUT.see, every_ms=100)
SEARCHES["turns"] = search_turns

routes = [
    *live_page("/turns", "turns", "lists", _overview, part=TURNS),
    *live_page("/turns/{turn}", "turn", "transcript", _turn, part=TURNS),
    Route("/turns/{turn}/words/{agent}", words),
    Route("/turns/{turn}/stop", stop, methods=["POST"]),
    Route("/agents/{agent}", agent),
    Route("/agents/{agent}/fragment/lists", agent_lists),
    Route("/agents/{agent}/send", send, methods=["POST"]),
]
