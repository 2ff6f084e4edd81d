"""What the models of docs/agents.md say: by local servers of Anthropic's and OpenAI's APIs, or by the real services.

A provider whose key is in the environment is asked itself; for any other a server of this machine answers by the rules
below, in the provider's own format.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from afl.devstack.chat_api import ChatApi
from afl.devstack.messages_api import MessagesApi
from afl.devstack.model_server import Json, ModelServer, Said, Spoken, uses

PROVIDERS: dict[str, tuple[type[ModelServer], str]] = {
    "ANTHROPIC": (MessagesApi, ""),
    "OPENAI": (ChatApi, "/v1"),
}


@contextmanager
def guide_models() -> Iterator[tuple[dict[str, str], bool]]:
    """The variables that the programs of the page need, and whether every model is a stand-in."""
    with ExitStack() as stack:
        variables: dict[str, str] = {}
        missing = [name for name in PROVIDERS if not os.environ.get(f"{name}_API_KEY")]
        for name in missing:
            server, path = PROVIDERS[name]
            url = stack.enter_context(server(answer)).url
            variables |= {f"{name}_API_KEY": "local", f"{name}_BASE_URL": url + path}
        yield variables, missing == list(PROVIDERS)


@dataclass(frozen=True)
class Asked:
    """A request, whichever API it came by: all that users said, and the results of tools since the last question."""

    said: list[str]
    results: list[str]


Rule = Callable[[Asked], Spoken]


def answer(body: Json) -> Spoken:
    """What a stand-in says to the last question that it knows."""
    said: list[str] = []
    results: list[str] = []
    rule: Rule | None = None
    for text, result in _messages(body):
        said.append(text)
        if found := next((rule for words, rule in RULES.items() if words in text), None):
            rule, results = found, []
        results += [result] if result else []
    return rule(Asked(said, results)) if rule else f"I have no answer to {said[-1]!r}."


def _messages(body: Json) -> Iterator[tuple[str, str]]:
    """Each text of a user, and each result of a tool, in their order."""
    for item in body.get("messages") or body.get("input") or ():
        if item.get("type") == "function_call_output":
            yield "", str(item["output"])
            continue
        blocks = item.get("content") or ()
        for block in [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks:
            if block["type"] == "tool_result":
                yield "", _text(block["content"])
            elif item.get("role") == "user":
                yield str(block.get("text", "")), ""


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def in_order(*replies: Spoken | Rule) -> Rule:
    """One reply after each result; the last one to all that follow."""

    def reply(asked: Asked) -> Spoken:
        found = replies[min(len(asked.results), len(replies) - 1)]
        return found(asked) if callable(found) else found

    return reply


def submits(**result: Any) -> Said:
    return uses("submit_result", {"result": result})


RULES: dict[str, Rule] = {
    "When is green tea picked?": in_order("In spring: the first leaves are picked in April."),
    "Where is order 8?": in_order(uses("order", {"number": "8"}), "Your white tea is on its way."),
    "Write the claim.": in_order(
        uses("order", {"number": "8"}),
        submits(order="8", euros=0, late=True),
        submits(order="8", euros=30, late=True),
    ),
    "came broken": in_order(
        uses("order", {"number": "7"}),
        uses("refund", {"number": "7", "euros": 12}),
        "I am sorry; the money is on its way to you.",
    ),
    "How much white tea": in_order(uses("stock", {"tea": "white"}), "There are 40 bags of white tea."),
    "I like it strong": in_order("Noted, Ada: strong tea it is."),
    "Which tea": in_order(
        lambda asked: "Assam, Ada." if "I like it strong" in str(asked.said) else "What do you like?"
    ),
    "Describe green and white tea.": in_order(
        uses(
            "fork_join",
            {
                "tasks": [
                    {"target_strategy": "new", "target_ref": "taster", "instruction": f"Describe {tea} tea."}
                    for tea in ("green", "white")
                ]
            },
        ),
        "Green tea is fresh; white tea is sweet.",
    ),
    "Describe green tea.": in_order("Fresh, like cut grass."),
    "Describe white tea.": in_order("Sweet, like hay."),
}
