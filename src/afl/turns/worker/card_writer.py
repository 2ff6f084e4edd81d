"""The cards that the worker writes for a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from afl.models import Reply
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import NewCard, tool_call_content
from afl.turns.cardbox.deliverable import answer_content
from afl.turns.cardbox.parts import PARTS, with_parts
from afl.turns.model import Head, Limits
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import CardType
from afl.turns.tools.approved import call_metadata
from afl.turns.tools.outcome import Outcome, result_card
from afl.turns.worker.conversation import thought_content
from afl.turns.worker.toolkit import Call


class CardWriter:
    """Makes the cards of one step of one turn."""

    def __init__(self, head: Head, step_id: str, limits: Limits) -> None:
        self._agent = head.agent_id
        self._turn = head.active_agent_turn_id or ""
        self._step = step_id
        self._limits = limits

    def thought(self, reply: Reply) -> NewCard:
        """The reply of the model with its calls; every call gets an id that is unique in the project."""
        calls: list[dict[str, Any]] = []
        for use in reply.tool_uses:
            calls.append({"id": new_id("call"), "name": use.name, "arguments": dict(use.input)})
            if use.details:
                calls[-1]["details"] = dict(use.details)
        return self._card(CardType.AGENT_THOUGHT, thought_content(reply), tool_calls=calls)

    def said(self, content: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> NewCard:
        """A thought that was kept until a person had approved it."""
        return self._card(CardType.AGENT_THOUGHT, content, tool_calls=[dict(call) for call in calls])

    def requested_call(self, tool_name: str, arguments: Mapping[str, Any]) -> NewCard:
        """The call that a person asked for, in place of a thought."""
        call = {"id": new_id("call"), "name": tool_name, "arguments": dict(arguments)}
        return self._card(CardType.AGENT_THOUGHT, contents.text(""), tool_calls=[call])

    def call(
        self, call: Call, arguments: Mapping[str, Any] | None = None, subject: str | None = None
    ) -> NewCard:
        """The call of a tool."""
        content = tool_call_content(call.name, arguments or call.arguments, target_subject=subject)
        return self._card(
            CardType.TOOL_CALL,
            content,
            tool_call_id=call.tool_call_id,
            function_name=call.name,
            metadata=call_metadata(call.asked),
        )

    def result(self, call: Call, outcome: Outcome) -> NewCard:
        """The result of a tool."""
        author = self._agent if call.local is None else f"tool.{call.name}"
        about = {"tool_call_id": call.tool_call_id, "function_name": call.name, "author": author}

        def made(outcome: Outcome) -> NewCard:
            named = {"card_id": outcome.card_id} if outcome.card_id else {}
            return self._card(CardType.TOOL_RESULT, outcome.content(), **about, **named)

        return result_card(made, outcome, self._limits)

    def answer(self, text: str) -> NewCard:
        """The deliverable of a turn that ends with text."""
        return self._card(CardType.TASK_DELIVERABLE, answer_content(text))

    def tool_answer(self, content: Mapping[str, Any]) -> NewCard:
        """The deliverable of a turn that ends with a tool's result."""
        error = content.get("error")
        result = content.get("result") if error is None else f"{error['code']}: {error['message']}"
        said = contents.text(result) if isinstance(result, str) else contents.json_data(result)
        return self._card(CardType.TASK_DELIVERABLE, with_parts(said, content.get(PARTS) or ()))

    def deliverable(self, content: Mapping[str, Any]) -> NewCard:
        return self._card(CardType.TASK_DELIVERABLE, content)

    def must_end_with(self, tools: Sequence[str]) -> NewCard:
        """A note to the model that stopped too early."""
        told = f"You have not finished: end your work by calling {' or '.join(tools)}."
        return self._card(CardType.MUST_END_WITH, contents.text(told))

    def must_have(self, asked: str, why: str) -> NewCard:
        """A note to the model whose result is not what was asked for."""
        told = f"You have not finished: {why}. End your work by calling submit_result with {asked}."
        return self._card(CardType.MUST_END_WITH, contents.text(told))

    def _card(self, type: CardType, content: Mapping[str, Any], *, author: str = "", **more: Any) -> NewCard:
        return NewCard(
            type, content, author or self._agent, agent_turn_id=self._turn, step_id=self._step, **more
        )
