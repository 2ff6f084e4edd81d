"""A model that needs no key: it says what is written here, by who is asked and how far they are.

Take `model = ClaudeModel()` (afl.models.claude) in agents.py instead, and the same agents think for themselves.
"""

import json
from typing import Any

from afl.models import Reply, Request, ScriptedModel, ToolUse
from afl.models.messages import StopReason, ToolResult


def wants(*calls: tuple[str, dict[str, Any]]) -> Reply:
    """Several tools at once."""
    return Reply(tuple(ToolUse(f"{name}-1", name, given) for name, given in calls), StopReason.TOOL_USE)


def task(profile: str, instruction: str) -> dict[str, str]:
    return {"target_strategy": "new", "target_ref": profile, "instruction": instruction}


def plan(request: Request) -> Reply | str:
    """The assistant, step by step."""
    said = [block for message in request.messages for block in message.content]
    results = {block.tool_use_id: block.content for block in said if isinstance(block, ToolResult)}
    called = {block.name: block.id for block in said if isinstance(block, ToolUse)}
    if "calendar" not in called:
        return wants(("calendar", {"day": "Friday"}), ("weather", {"city": "Rome"}))
    if "fork_join" not in called:
        tasks = [task("cook", "Dinner in Rome?"), task("curator", "The morning in Rome?")]
        return wants(("fork_join", {"tasks": tasks}))
    experts = json.loads(results[called["fork_join"]])["results"]
    if "book" not in called:
        return wants(("book", {"place": "Da Enzo", "guests": 2}))
    return "\n".join(
        [
            f"Friday in Rome, {results[called['weather']]}.",
            f"Morning: {experts[1]['summary']}",
            f"Evening: {experts[0]['summary']}",
            f"Booked: {results[called['book']]}.",
        ]
    )


def answer(request: Request) -> Reply | str:
    if request.system.startswith("You know where to eat"):
        return "Da Enzo, at eight."
    if request.system.startswith("You know what to see"):
        return "The Pantheon, before the crowd."
    return plan(request)


model = ScriptedModel(answer)
