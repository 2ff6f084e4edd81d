"""A model that answers as it is told: for tests and examples."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from afl.models.errors import ModelUnavailable
from afl.models.messages import Reply, Request, StopReason, Text, ToolUse
from afl.models.model import OnText
from afl.models.usage import Usage

Scripted = Reply | str | Exception
_ids = count(1)
_SMALL = Usage(10, 10)


class ScriptedModel:
    """Answers from a list, one after another, or by a function of the request. `requests` are those it was sent."""

    def __init__(
        self, answers: Iterable[Scripted] | Callable[[Request], Scripted], *, name: str = "scripted"
    ) -> None:
        self.name = name
        self.requests: list[Request] = []
        self._guard = threading.Lock()
        self._answer = answers if callable(answers) else _in_order(answers)

    def resolve(self, name: str) -> str:
        return name or self.name

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        with self._guard:
            self.requests.append(request)
            answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        reply = says(answer) if isinstance(answer, str) else answer
        if on_text is not None and reply.text:
            for word in reply.text.splitlines(keepends=True):
                on_text(word)
        return Reply(
            reply.content, reply.stop_reason, reply.usage, reply.model or self.resolve(request.model)
        )


def says(text: str, *, usage: Usage = _SMALL) -> Reply:
    """A reply of words alone."""
    return Reply((Text(text),), StopReason.END_TURN, usage)


def calls(tool: str, input: dict[str, Any], *, usage: Usage = _SMALL) -> Reply:
    """A reply that calls a tool. An answer is such a call, of the answer's own tool."""
    return Reply((ToolUse(f"call_{next(_ids)}", tool, input),), StopReason.TOOL_USE, usage)


def _in_order(answers: Iterable[Scripted]) -> Callable[[Request], Scripted]:
    left = iter(answers)

    def answer(request: Request) -> Scripted:
        return next(left, ModelUnavailable("the script of this model has no more answers"))

    return answer
