"""A structured answer from a model: asked for, checked, and sent back with the reason until it fits.

The answer is the input of a tool that the model is told to call. Beside it the model may call Python tools, round after
round. An answer that does not fit goes back with what is wrong with it, and so do words without an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from afl.kernel import telemetry
from afl.kernel.error_text import text_of
from afl.kernel.errors import InputError
from afl.models.errors import AnswerError
from afl.models.messages import (
    MAX_TOKENS,
    Message,
    Reply,
    Request,
    StopReason,
    Tool,
    ToolResult,
    ToolUse,
    unreadable,
)
from afl.models.model import Model, OnText, complete
from afl.models.schema import PythonTool
from afl.models.settings import ModelSettings
from afl.models.usage import Usage

CORRECTIONS = 3
ROUNDS = 20


def _anything(answer: Mapping[str, Any]) -> str | None:
    return None


@dataclass(frozen=True)
class Question:
    """What is asked. `check` says what is wrong with an answer, or None.

    `optional`: words without an answer are an answer as well, an empty one. `corrections` is how often the model may
    try again, `rounds` how often it is called in all.
    """

    prompt: str
    answer: Tool
    system: str = ""
    model: str = ""
    tools: Sequence[PythonTool] = ()
    check: Callable[[dict[str, Any]], str | None] = _anything
    optional: bool = False
    max_tokens: int = MAX_TOKENS
    settings: ModelSettings = field(default_factory=ModelSettings)
    corrections: int = CORRECTIONS
    rounds: int = ROUNDS


@dataclass(frozen=True)
class Answer:
    """What came of a question: the values, the last words beside them, and what all of it took."""

    value: dict[str, Any]
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    calls: int = 0


def ask(model: Model, question: Question, *, on_text: OnText | None = None) -> Answer:
    """The answer. AnswerError when there is none that fits; ModelError when the model cannot be asked."""
    return _Conversation(model, question, on_text).lead()


class _Conversation:
    """One question under way."""

    def __init__(self, model: Model, question: Question, on_text: OnText | None) -> None:
        self._model = model
        self._question = question
        self._on_text = on_text
        self._tools = {tool.name: tool for tool in question.tools}
        if question.answer.name in self._tools or len(self._tools) < len(question.tools):
            names = sorted([question.answer.name, *(tool.name for tool in question.tools)])
            raise InputError(f"two tools of one question have the same name: {', '.join(names)}")
        self._usage = Usage()
        self._misfits = 0
        self._request = Request(
            messages=(Message.user(question.prompt),),
            system=question.system,
            tools=(*(tool.tool for tool in question.tools), question.answer),
            model=question.model,
            max_tokens=question.max_tokens,
            settings=question.settings,
        )

    def lead(self) -> Answer:
        """Call the model until its answer fits."""
        for number in range(1, self._question.rounds + 1):
            reply = complete(self._model, self._request, self._on_text)
            self._usage += reply.usage
            self._refuse_the_end(reply)
            value = self._accepted(reply)
            if value is not None:
                return Answer(value, reply.text, self._usage, number)
        raise self._failed(f"no answer after {self._question.rounds} rounds")

    def _accepted(self, reply: Reply) -> dict[str, Any] | None:
        """The answer, if the reply has one that fits; else the conversation is ready for its next round."""
        if reply.stop_reason == StopReason.PAUSE_TURN:
            self._go_on(reply)
            return None
        uses = reply.tool_uses
        answers = [use for use in uses if use.name == self._question.answer.name]
        if not uses:
            return self._without_tools(reply)
        problem = self._problem(reply, answers)
        if answers and problem is None:
            return dict(answers[0].input)
        if problem is not None:
            self._count(problem)
        self._go_on(reply, *(self._result(use, problem, reply) for use in uses))
        return None

    def _without_tools(self, reply: Reply) -> dict[str, Any] | None:
        if self._question.optional and reply.stop_reason == StopReason.END_TURN:
            return {}
        name = self._question.answer.name
        problem = f"the answer has to be given by calling the tool {name}, and it was not called"
        if reply.stop_reason == StopReason.MAX_TOKENS:
            problem = f"the reply was cut off at {self._question.max_tokens} tokens before {name} was called"
        self._count(problem)
        self._go_on(reply, f"This does not do: {problem}. Call {name} now.")
        return None

    def _problem(self, reply: Reply, answers: list[ToolUse]) -> str | None:
        """What is wrong with the answer in a reply; None also when there is none in it."""
        if reply.stop_reason == StopReason.MAX_TOKENS:
            return f"it was cut off at {self._question.max_tokens} tokens; be shorter"
        if len(answers) > 1:
            return f"{self._question.answer.name} was called {len(answers)} times; give one answer"
        if not answers:
            return None
        given = answers[0].input
        return unreadable(given, answers[0].name) or self._question.check(dict(given))

    def _result(self, use: ToolUse, problem: str | None, reply: Reply) -> ToolResult:
        if use.name == self._question.answer.name or reply.stop_reason == StopReason.MAX_TOKENS:
            text = f"This does not do: {problem}. Correct it and call {use.name} again."
            return ToolResult(use.id, text, is_error=True)
        tool = self._tools.get(use.name)
        if tool is None:
            known = ", ".join([*self._tools, self._question.answer.name])
            return ToolResult(use.id, f"there is no tool {use.name}; there are: {known}", is_error=True)
        try:
            with telemetry.span("afl.tool", tool=use.name, call=use.id):
                return ToolResult(use.id, tool(use.input))
        except Exception as error:  # whatever a tool raises is for the model to deal with
            return ToolResult(use.id, f"{type(error).__name__}: {text_of(error)}", is_error=True)

    def _go_on(self, reply: Reply, *said: ToolResult | str) -> None:
        """The next round begins with what the model said and what is said to that."""
        turns = [reply.as_message()] if reply.content else []
        if said:
            turns.append(Message.user(*said))
        self._request = replace(self._request, messages=(*self._request.messages, *turns))

    def _count(self, problem: str) -> None:
        self._misfits += 1
        if self._misfits > self._question.corrections:
            raise self._failed(f"no fitting answer after {self._misfits} attempts; the last one: {problem}")

    def _refuse_the_end(self, reply: Reply) -> None:
        if reply.stop_reason == StopReason.REFUSAL:
            raise self._failed(f"it refused: {reply.text or 'no reason given'}")
        if reply.stop_reason == StopReason.CONTEXT_FULL:
            raise self._failed(
                "the conversation grew longer than it can read; ask for less, or give it less to read"
            )

    def _failed(self, reason: str) -> AnswerError:
        name, asked = self._model.resolve(self._question.model), self._question.answer.name
        return AnswerError(f"the model {name} gave no answer for {asked}: {reason}", usage=self._usage)
