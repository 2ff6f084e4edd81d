"""A turn as a transcript, and events of turns as lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from afl.cli.console import duration, say
from afl.operations.spans import clock
from afl.operations.turn.turn_files import FileView
from afl.operations.turn.turn_reasons import TurnReason
from afl.operations.turn.turn_view import CardView, StepView, TurnView
from afl.operations.turn.turn_wait import TurnEvent, moment_of
from afl.turns.cardbox.deliverable import Delivered

_COLORS = {
    "queued": "yellow",
    "dispatched": "yellow",
    "running": "cyan",
    "suspended": "cyan",
    "idle": "green",
    "inactive": "dim",
    "success": "green",
    "partial": "yellow",
    "failed": "red",
    "timeout": "red",
    "canceled": "dim",
    "error": "red",
}
_SPEAKERS = {"task.deliverable": "delivers", "task.result_fields": "asks for", "agent.error": "error"}
_NAME_WIDTH = 14


def reason_text(reason: TurnReason, color: str) -> Text:
    """Why a turn is stuck, and what to do."""
    about = Text.assemble((f"turn {reason.turn} of {reason.agent}", "bold"), ": ", (reason.sentence, color))
    return about.append(f"\n  {reason.action}", "dim")


def status_text(status: str) -> Text:
    """A status in its color."""
    return Text(str(status), _COLORS.get(str(status), ""))


def say_how_it_ended(delivered: Delivered) -> None:
    """What a person has to know of an answer beside its text."""
    if not delivered.succeeded:
        say(Text.assemble(status_text(delivered.status), f": {delivered.error or delivered.text}"))
    elif delivered.cut_off:
        say(
            "The reply was cut off at max_tokens, which llm_config of the agent sets, "
            "or at the end of the model's context window.",
            "yellow",
        )
    elif not delivered.text:
        say("The reply is empty.", "yellow")


def print_transcript(view: TurnView, console: Console, *, edges: bool = False) -> None:
    """The whole of it, in the order in which it happened."""
    console.print(_heading(view), soft_wrap=True)
    for card in view.context:
        _print_card(card, console)
    shown: set[str] = set()
    delivered = {card.text for card in view.cards if card.type == "task.deliverable"}
    for card in view.cards:
        for step in () if card.step in shown else view.steps_until(card.step, shown):
            console.print(_step(step), soft_wrap=True)
        if card.type != "agent.thought" or card.text not in delivered:
            _print_card(card, console)
    for step in view.steps:
        if step.step not in shown:
            console.print(_step(step), soft_wrap=True)
    for wait in view.waits:
        console.print(Text(f"  waits for {wait.tool} ({wait.call}): {wait.status}", "cyan"), soft_wrap=True)
    if view.turn.error:
        console.print(Text(f"{view.turn.error_code or 'error'}: {view.turn.error}", "red"), soft_wrap=True)
    if edges:
        _print_edges(view, console)


def _heading(view: TurnView) -> Text:
    turn = view.turn
    text = Text.assemble((f"turn {turn.turn}", "bold"), " of ", (turn.agent, "bold"), "  ")
    text.append_text(status_text(turn.status))
    facts = [f"asked {clock(turn.created)}"]
    if turn.ended is not None:
        facts.append(f"took {duration(turn.ended - turn.created)}")
    if view.parent_agent:
        where = f" in {view.parent_turn}" if view.parent_turn else ""
        facts.append(f"by {view.parent_agent}{where}")
    facts += [f"depth {view.depth}", f"epoch {view.epoch}"]
    if view.cost is not None and view.cost > 0:
        facts.append(f"${view.cost:.4f}")
    return text.append(f"\n  {', '.join(facts)}", "dim")


def _step(step: StepView) -> Text:
    text = Text.assemble((f"step {step.number}", "bold"), f"  {step.status}")
    if step.ended is not None:
        text.append(f"  {duration(step.ended - step.started)}", "dim")
    if step.model:
        text.append(f"  {step.model}, {step.input_tokens} + {step.output_tokens} tokens", "dim")
    if step.cut_off_at:
        text.append(f"  cut off at {step.cut_off_at}", "yellow")
    if step.error:
        text.append(f"  {step.error}", "red")
    return text


def _print_card(card: CardView, console: Console) -> None:
    name, style = _speaker(card)
    if not card.text and card.type == "agent.thought":
        return  # it only called tools; the calls follow
    first, *rest = card.text.splitlines() or [_nothing(card)]
    console.print(Text.assemble("  ", (f"{name:<{_NAME_WIDTH}}", style), " ", first), soft_wrap=True)
    files = [] if card.type == "tool.result" else [f"({_file(file)})" for file in card.files]
    for line in [*rest, *files]:  # the text of a result names its files
        console.print(Text(" " * (_NAME_WIDTH + 3) + line), soft_wrap=True)


def _nothing(card: CardView) -> str:
    return "(nothing)" if card.type == "task.deliverable" and not card.files else ""


def _file(file: FileView) -> str:
    return file.url or ", ".join([*filter(None, [file.name, file.media_type]), f"{file.size:,} bytes"])


def _speaker(card: CardView) -> tuple[str, str]:
    if card.type == "tool.call":
        return f"→ {card.tool}", "cyan"
    if card.type == "tool.result":
        good = card.status == "success"
        return f"← {card.tool}", "green" if good else "red"
    if card.type == "task.instruction":
        return card.author, "bold"
    if card.type in _SPEAKERS:
        return _SPEAKERS[card.type], "bold green" if card.type == "task.deliverable" else "yellow"
    return (card.author if card.type == "agent.thought" else card.tool or card.type), ""


def _print_edges(view: TurnView, console: Console) -> None:
    console.print(Text("edges", "bold"))
    for edge in view.edges:
        line = f"  {clock(edge.created)}  {edge.primitive:<9} {edge.phase:<8}  {edge.source} → {edge.target}"
        about = f"  {edge.correlation}, depth {edge.depth}"
        console.print(Text(line).append(about, "dim"), soft_wrap=True)


def event_text(event: TurnEvent) -> Text:
    """One line: when, who, what."""
    line = Text.assemble((moment_of(event), "dim"), "  ", (event.agent, "bold"), "  ")
    line.append(f"{event.kind:<6}", "dim").append_text(_KINDS[event.kind](event.payload))
    turn = str(event.payload.get("agent_turn_id", ""))
    return line.append(f"  {turn}", "dim")


def _state(payload: Mapping[str, Any]) -> Text:
    about = payload.get("metadata") or {}
    said = [str(about[name]) for name in ("activity", "current_tool", "error") if about.get(name)]
    if about.get("waiting_tool_count"):
        said.append(f"{about['waiting_tool_count']} tools")
    return status_text(str(payload.get("status"))).append(f" {', '.join(said)}" if said else "")


def _step_event(payload: Mapping[str, Any]) -> Text:
    cards = len(payload.get("new_card_ids") or ())
    return Text(f"{payload.get('phase')}" + (f", {cards} cards" if cards else ""))


def _task(payload: Mapping[str, Any]) -> Text:
    text = status_text(str(payload.get("status")))
    if payload.get("error"):
        text.append(f" {payload['error']}", "red")
    return text.append(f" {payload.get('deliverable_card_id')}", "dim")


def _chunk(payload: Mapping[str, Any]) -> Text:
    return Text(f"{payload.get('chunk_type')} {payload.get('content', '')!r}")


_KINDS = {"state": _state, "step": _step_event, "task": _task, "chunk": _chunk}
