"""What checks have a person decide: the question that suspends a turn, and how the turn goes on after the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from afl.kernel.errors import InputError
from afl.kernel.ids import sortable_id
from afl.models import Tool
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import NewCard
from afl.turns.guardrails import Refuse, Verdict
from afl.turns.statuses import AfterExecution, StepStatus, TaskStatus
from afl.turns.store.steps import StepEnd
from afl.turns.tools.approval import AskedApproval
from afl.turns.tools.approved import answer_of, approval_of, call_metadata, refusal_of
from afl.turns.tools.expected import Expected
from afl.turns.tools.outcome import Outcome, failed
from afl.turns.tools.questions import INPUT, OUTPUT, SETTLES
from afl.turns.transitions import Ending
from afl.turns.worker.card_writer import CardWriter
from afl.turns.worker.guarding import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    feedback,
    guard_card,
    input_card,
    refused_input,
    refused_output,
)
from afl.turns.worker.step_commit import INVALID_RESULT, StepResult, failure
from afl.turns.worker.toolkit import Call, Route
from afl.turns.worker.turn_state import Settle, TurnState

_TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def ask_about_input(state: TurnState, verdict: Verdict, end: StepEnd) -> StepResult:
    """The turn does not call its model before somebody has approved what it was asked."""
    return _question(state, INPUT, verdict, {"text": str(verdict.value)}, _TEXT, {}, end)


def ask_about_text(state: TurnState, verdict: Verdict, thought: NewCard, end: StepEnd) -> StepResult:
    """The turn does not deliver its text before somebody has approved it. Until then no model reads it either."""
    kept = {"thought": dict(thought.content), "calls": []}
    return _question(state, OUTPUT, verdict, {"text": str(verdict.value)}, _TEXT, kept, end)


def ask_about_result(
    state: TurnState, verdict: Verdict, thought: NewCard, call: Call, end: StepEnd
) -> StepResult:
    """The turn does not deliver its result before somebody has approved it."""
    kept = {"thought": dict(thought.content), "calls": [dict(each) for each in thought.tool_calls]}
    schema = (state.toolkit.expected or Expected()).tool.input_schema
    given = {**call.arguments, "result": verdict.value}
    return _question(state, OUTPUT, verdict, given, schema, kept, end)


def _question(
    state: TurnState,
    kind: str,
    verdict: Verdict,
    arguments: Mapping[str, Any],
    schema: Mapping[str, Any],
    kept: Mapping[str, Any],
    end: StepEnd,
) -> StepResult:
    ask = verdict.ask
    assert ask is not None
    asked = AskedApproval(sortable_id(), ask.group, ask.seconds)
    about = {"question": kind, "reason": ask.reason, "by": list(verdict.by), "retry": ask.retry, **kept}
    card = guard_card(state, contents.json_data({**about, "value": dict(arguments)}), call_metadata(asked))
    tool = Tool(kind, ask.reason or f"Asked by {', '.join(verdict.by)}.", schema)
    call = Call(asked.id, kind, arguments, Route.APPROVAL, asked=asked, about=tool)
    return StepResult([card], end, [call])


@dataclass(frozen=True, slots=True)
class _Answer:
    """The values that were approved; None: `refusal` says why they were not."""

    values: Mapping[str, Any] | None
    refusal: str = ""


def settle(state: TurnState, writer: CardWriter, action: Settle) -> StepResult | Ending:
    """What follows from the answer to a question: the end of the turn, or its next step."""
    asked = approval_of(action.card)
    assert asked is not None
    found = answer_of(state.own, asked)
    refused = failed("", "there is no answer") if found is None else refusal_of(found, asked, "this")
    if refused is not None or found is None:
        told = str((refused.error if refused is not None and refused.error else {}).get("message"))
        answer = _Answer(None, told)
    else:
        answer = _Answer(found["result"]["arguments"])
    end = replace(state.step_ends.get(action.step_id, StepEnd(action.step_id)), status=StepStatus.COMPLETED)
    if action.card.content["data"]["question"] == INPUT:
        return _settle_input(state, writer, action.card, answer, end)
    return _settle_output(state, writer, action.card, answer, end)


def _settle_input(
    state: TurnState, writer: CardWriter, question: NewCard, answer: _Answer, end: StepEnd
) -> StepResult | Ending:
    by = question.content["data"]["by"]
    if answer.values is None:
        card = refused_input(state, str(answer.refusal), by)
        step = replace(end, status=StepStatus.FAILED, error=answer.refusal)
        return replace(failure(state, writer, INPUT_REFUSED, answer.refusal, step), cards=[card])
    card = input_card(state, str(answer.values["text"]), by)
    return StepResult([_settling(card, question)], end)


def _settle_output(
    state: TurnState, writer: CardWriter, question: NewCard, answer: _Answer, end: StepEnd
) -> StepResult | Ending:
    asked = question.content["data"]
    if answer.values is None and not asked["retry"]:
        refusal = Refuse(answer.refusal)
        card = refused_output(state, asked["value"], refusal, asked["by"])
        step = replace(end, status=StepStatus.FAILED, error=answer.refusal)
        return replace(failure(state, writer, OUTPUT_REFUSED, answer.refusal, step), cards=[card])
    if asked["calls"]:
        return _settle_result(state, writer, question, answer, end)
    thought = writer.said(asked["thought"], [])
    if answer.values is None:
        note = feedback(state, Refuse(answer.refusal))
        return StepResult([thought, _settling(note, question)], end)
    text = str(answer.values["text"])
    if text != asked["thought"].get("text"):  # what its provider wanted back with the old words goes
        thought = writer.said(contents.text(text), [])
    return Ending(TaskStatus.SUCCESS, writer.answer(text), cards=[thought], step=end)


def _settle_result(
    state: TurnState, writer: CardWriter, question: NewCard, answer: _Answer, end: StepEnd
) -> StepResult | Ending:
    asked = question.content["data"]
    made = {**asked["calls"][0], "arguments": answer.values or asked["value"]}
    call = Call(made["id"], made["name"], made["arguments"], Route.SUBMIT)
    cards = [writer.said(asked["thought"], [made]), writer.call(call)]
    refusal = None if answer.values is not None else failed(OUTPUT_REFUSED, answer.refusal)
    try:
        content = (state.toolkit.expected or Expected()).accept(call.arguments)
    except InputError as error:
        refusal = refusal or failed(INVALID_RESULT, str(error))
    if refusal is not None:
        return StepResult([*cards, _settling(writer.result(call, refusal), question)], end)
    return submitted(writer, cards, call, content, end)


def submitted(
    writer: CardWriter, cards: list[NewCard], call: Call, content: Mapping[str, Any], end: StepEnd
) -> Ending:
    """The end of a turn with the result that its model submitted."""
    result = writer.result(call, Outcome("success", "accepted", after_execution=AfterExecution.TERMINATE))
    return Ending(
        TaskStatus.SUCCESS,
        writer.deliverable(content),
        cards=[*cards, result],
        tool_result_card_id=result.card_id,
        step=end,
    )


def _settling(card: NewCard, question: NewCard) -> NewCard:
    return replace(card, metadata={**card.metadata, SETTLES: question.card_id})
