"""Events of turns as lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from afl.cli.turn_transcript import status_text
from afl.operations.turn.turn_events import TurnEvent, moment_of


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


def _step(payload: Mapping[str, Any]) -> Text:
    cards = len(payload.get("new_card_ids") or ())
    return Text(f"{payload.get('phase')}" + (f", {cards} cards" if cards else ""))


def _task(payload: Mapping[str, Any]) -> Text:
    text = status_text(str(payload.get("status")))
    if payload.get("error"):
        text.append(f" {payload['error']}", "red")
    return text.append(f" {payload.get('deliverable_card_id')}", "dim")


def _chunk(payload: Mapping[str, Any]) -> Text:
    return Text(f"{payload.get('chunk_type')} {payload.get('content', '')!r}")


_KINDS = {"state": _state, "step": _step, "task": _task, "chunk": _chunk}
