"""The functions of shop.afl. Some are held, or broken, until a file of that name is there."""

import os
from pathlib import Path
from typing import Any

from afl import HandlerContext, handler
from afl.models import Reply, Request, ScriptedModel, ToolUse, Usage
from afl.models.messages import StopReason

GATES = Path(os.environ["GATES"])
SHELVES = {"north": [("flour", 1.2), ("sugar", 0.9), ("<b>salt</b>", 0.4)], "south": [("tea", 3.5)]}


class LineBusy(Exception):
    """Worth another attempt."""


def wait_for(name: str, context: HandlerContext) -> None:
    while not (GATES / name).exists():
        if context.cancellation.wait(0.1):
            raise RuntimeError("nobody waits for it any more")


@handler("shop.Look")
def look(shelf: str) -> dict[str, Any]:
    return {"items": [{"name": name, "price": price} for name, price in SHELVES.get(shelf, [])]}


@handler("shop.Weigh")
def weigh(name: str, context: HandlerContext) -> dict[str, int]:
    context.log(f"{name} is on the scale")
    return {"grams": 1000 if name == "flour" else 80}


@handler("shop.Stamp")
def stamp(n: int) -> dict[str, int]:
    return {"m": n * 2}


@handler("shop.Busy")
def busy(line: str, context: HandlerContext) -> dict[str, str]:
    context.log(f"attempt {context.attempt} to reach the {line}")
    if context.attempt == 1:
        raise LineBusy(f"the line to the {line} is busy")
    return {"answer": "hello"}


@handler("shop.Gate")
def gate(name: str, context: HandlerContext) -> dict[str, str]:
    context.log(f"waiting at gate {name}")
    wait_for(name, context)
    return {"name": name}


@handler("shop.Fragile")
def fragile(name: str) -> dict[str, str]:
    if not (GATES / name).exists():
        raise ValueError(f"{name} is broken")
    return {"name": name}


def describe(request: Request) -> Reply:
    """What a model would say; it calls the tool that takes the answer."""
    answer = ToolUse("call", request.tools[0].name, {"text": "one of the best"})
    return Reply((answer,), StopReason.TOOL_USE, Usage(1200, 80))


models = {"shop.Describe": ScriptedModel(describe, name="claude-sonnet-4-6")}
