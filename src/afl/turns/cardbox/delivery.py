"""Deliverables: what a turn hands over. What it hands over when it could not come to an end is L0's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.kernel import codec
from afl.turns.cardbox import cards

NO_CONTENT = "(no content)"


def answer_content(text: str) -> dict[str, Any]:
    """The deliverable of a turn that ended with words."""
    return cards.text(text or NO_CONTENT)


def fields_content(fields: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """The deliverable of a turn that ended with submit_result."""
    return cards.fields_schema([dict(each) for each in fields])


def deliverable_text(content: Mapping[str, Any]) -> str:
    """A deliverable as one text, for people and for the agent that asked."""
    if "text" in content:
        return str(content["text"])
    data = content.get("data")
    if "fields" not in content:
        message = data.get("message") if isinstance(data, Mapping) else None
        return str(message) if message is not None else data if isinstance(data, str) else codec.encode(data)
    fields = content["fields"]
    if len(fields) == 1:
        return str(fields[0].get("value", ""))
    return "\n".join(f"{each.get('name')}: {each.get('value')}" for each in fields)
