"""An agent of turns that calls tools; one of them is held until a file of its name is there."""

import os
import time
from pathlib import Path

from afl.models import Reply, Request, ScriptedModel, Text, ToolUse, Usage
from afl.models.messages import StopReason, ToolResult
from afl.models.model import OnText
from afl.turns import agent

__all__ = ["clerk", "model"]
GATES = Path(os.environ["GATES"])


def stock(item: str) -> str:
    """How much of an item is there."""
    return f"12 of {item}"


def ask_back_room(name: str) -> str:
    """Ask the colleague in the back room, who may take a while."""
    while not (GATES / name).exists():
        time.sleep(0.01)
    return f"the back room says: {name}"


def said(request: Request) -> str:
    """The question of the turn."""
    texts = [
        block.text for message in request.messages for block in message.content if isinstance(block, Text)
    ]
    return texts[-1]


def answer(request: Request) -> Reply | str:
    results = [block.content for block in request.messages[-1].content if isinstance(block, ToolResult)]
    if results:
        return f"In short: {results[-1]}"
    question = said(request)
    name = "ask_back_room" if "back room" in question else "stock"
    given = {"name": question.split()[-1]} if name == "ask_back_room" else {"item": question.split()[-1]}
    return Reply((Text("I look it up."), ToolUse("one", name, given)), StopReason.TOOL_USE, Usage(900, 40))


class Speaker(ScriptedModel):
    """Asked to talk, it stops in the middle of its answer until a file of that name is there."""

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        words = said(request).split()
        if words[0] != "Talk" or on_text is None:
            return super().complete(request, on_text)
        on_text("It takes a while ")
        ask_back_room(words[-1])
        return Reply((Text("It takes a while to tell."),), model=self.name)


model = Speaker(answer, name="claude-sonnet-4-6")
clerk = agent("clerk", "You know the shop.", tools=[stock, ask_back_room])
