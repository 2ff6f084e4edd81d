"""Everything a module can offer: an agent of turns with a tool, a function that answers messages, a handler.

The agent thinks by a script, so no key is needed; `model = ClaudeModel()` (afl.models.claude) lets it think for itself.
"""

import json
import re

from afl import handler
from afl.bridges import answers
from afl.models import Reply, Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.models.scripted import calls
from afl.turns import agent

_FRENCH = {
    "We are sorry.": "Nous sommes désolés.",
    "You get back": "Nous vous rendons",
    "euros": "euros",
}


def parcel(order: str) -> dict[str, int]:
    """Where a parcel was, and how many days late it came."""
    return {"days_late": 3}


def think(request: Request) -> Reply | str:
    """Look at the parcel, then say what was found."""
    said = [block for message in request.messages for block in message.content]
    results = [block.content for block in said if isinstance(block, ToolResult)]
    if not results:
        order = re.search(r'"order":"([^"]+)"', str(said[0]))
        return calls("parcel", {"order": order[1] if order else ""})
    days = json.loads(results[0])["days_late"]
    summary = f"The parcel came {days} days late."
    return calls("submit_result", {"result": {"justified": True, "days_late": days, "summary": summary}})


model = ScriptedModel(think)
clerk = agent("clerk", "You look into complaints. Trust the parcel's record.", tools=[parcel])


@answers("translator")
def translate(text: str, language: str) -> dict[str, str]:
    for english, french in _FRENCH.items() if language == "fr" else ():
        text = text.replace(english, french)
    return {"text": text}


@handler("refunds.Pay")
def pay(order: str, amount: float) -> dict[str, str]:
    return {"receipt": f"{order}: {amount:.2f} EUR"}
