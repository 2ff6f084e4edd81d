"""The notifier topics of turns."""

from __future__ import annotations

from afl.turns.message import Message


def turn_topic(turn_id: str) -> str:
    """What notifies those who read the events of a turn."""
    return f"turn:{turn_id}"


def changed_topic(message: Message) -> str:
    """The topic of the turn that changed before the message was published; empty if it says nothing of a turn."""
    if ".evt.agent." not in message.subject:
        return ""
    turn = message.payload.get("agent_turn_id")
    return turn_topic(turn) if isinstance(turn, str) and turn else ""
