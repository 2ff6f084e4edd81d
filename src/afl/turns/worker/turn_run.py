"""A running turn: step after step, until it suspends or ends.

The cards and the state of a step are written in one transaction; its events are published after the commit. The next
step follows from the cards (`next_action`), so a turn that was entered, resumed or taken over takes the same path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.models import ModelError, Reply
from afl.models.errors import ModelUnavailable, RequestTooLong
from afl.models.messages import StopReason
from afl.turns.budgets.accounts import BudgetSpent
from afl.turns.cardbox.cards import NewCard
from afl.turns.errors import ContentUnavailable, ProtocolViolation
from afl.turns.guardrails import Verdict
from afl.turns.message import Message
from afl.turns.model import Head
from afl.turns.protocol.events import state_event, step_event
from afl.turns.protocol.subjects import tool_subject
from afl.turns.statuses import Activity, StepPhase, StepStatus, TaskStatus
from afl.turns.store import inbox
from afl.turns.store.steps import StepEnd
from afl.turns.tools.expected import Expected
from afl.turns.tools.local import ToolCall
from afl.turns.tools.outcome import failed
from afl.turns.tracing import stepping
from afl.turns.transitions import Ending, note
from afl.turns.worker.approval import approved_call, is_edited, open_calls, with_approval
from afl.turns.worker.asking import ask_about_input, ask_about_result, ask_about_text, settle, submitted
from afl.turns.worker.card_writer import CardWriter
from afl.turns.worker.guarding import (
    INPUT_REFUSED,
    OUTPUT_REFUSED,
    feedback,
    guard_calls,
    guard_input,
    guard_output,
    refused_output,
    stored_arguments,
    with_text,
)
from afl.turns.worker.metering import BUDGET_EXCEEDED, timed
from afl.turns.worker.model_call import call_model, usage_metadata
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.step_commit import (
    INVALID_RESULT,
    NextStep,
    SentCalls,
    StepOutcome,
    StepResult,
    TurnEnded,
    TurnSuspended,
    commit_step,
    end_action,
    exhausted,
    failure,
    finish_turn,
    refused_by_model,
    send_calls,
)
from afl.turns.worker.summarizing import summarize
from afl.turns.worker.toolkit import Call, Route, full_arguments
from afl.turns.worker.turn_state import CallTools, EndWithResult, Settle, TurnState, next_action

_READ_LESS = 'to read less of its session, give the agent history={"tokens": ...}'
CONTENT_UNAVAILABLE = "content_unavailable"
_RETRIES = 4  # of a reply that breaks off
_BACKOFF = Backoff(0.5, cap=8.0)


class TurnRun:
    """Runs one turn that this worker has entered, resumed or taken over."""

    def __init__(self, services: WorkerServices, state: TurnState) -> None:
        self._services = services
        self._state = state
        self._retries = 0
        self.has_ended = False

    async def run(self) -> None:
        """Run until the turn suspends or ends; FencedError when it is no longer this worker's."""
        if self._state.profile.mcp:
            self._state.toolkit = await self._services.mcp.with_tools(self._state.toolkit)
        self._publish_started()
        while True:
            with stepping(self._state.head, self._state.step_id):
                outcome = await self._step()
            if outcome is not None:
                return

    async def _step(self) -> StepOutcome | None:
        """One action of the turn; the outcome if the turn suspended or ended by it."""
        state = self._state
        action = next_action(state.output, state.turn_id)
        if isinstance(action, CallTools):
            return await self._call_tools(action)
        if isinstance(action, Settle):
            settled = settle(state, self._writer(action.step_id), action)
            return await (self._finish(settled) if isinstance(settled, Ending) else self._commit(settled))
        step = StepEnd(state.step_id)
        if isinstance(action, EndWithResult):
            return await self._commit(StepResult((), step))
        if state.is_action:
            return await self._act(step)
        if self._services.limits.steps_left(state.head.steps - 1) == 0:
            return await self._finish(exhausted(state, self._writer(), step))
        return await self._call_model()

    # -- the model --------------------------------------------------------------------------------------------

    async def _call_model(self) -> StepOutcome | None:
        state, writer = self._state, self._writer()
        refused = await guard_input(self._services, state)
        if isinstance(refused, Verdict):
            return await self._commit(ask_about_input(state, refused, StepEnd(state.step_id)))
        if refused is not None:
            step = StepEnd(state.step_id, StepStatus.FAILED, error=refused.reason)
            ending = failure(state, writer, INPUT_REFUSED, refused.reason, step)
            return await self._finish(replace(ending, cards=[refused.card]))
        await summarize(self._services, state)
        try:
            reply = await call_model(self._services, state)
        except ModelError as error:
            if isinstance(error, ModelUnavailable) and error.broke_off and self._retries < _RETRIES:
                return await self._ask_again(error)
            why = f"{error}; {_READ_LESS}" if isinstance(error, RequestTooLong) else str(error)
            step = StepEnd(state.step_id, StepStatus.FAILED, error=why)
            return await self._finish(failure(state, writer, "model_error", why, step))
        except ContentUnavailable as error:
            step = StepEnd(state.step_id, StepStatus.FAILED, error=str(error))
            return await self._finish(failure(state, writer, CONTENT_UNAVAILABLE, str(error), step))
        except BudgetSpent as error:
            step = StepEnd(state.step_id, StepStatus.FAILED, error=str(error))
            return await self._finish(failure(state, writer, BUDGET_EXCEEDED, str(error), step))
        self._retries = 0
        thought = writer.thought(reply)
        end = StepEnd(state.step_id, metadata=usage_metadata(reply, self._services.prices))
        if thought.tool_calls:
            return await self._store_calls(thought, end)
        if reply.stop_reason == StopReason.PAUSE_TURN:
            return await self._commit(StepResult([thought], end))
        if reply.stop_reason == StopReason.REFUSAL:
            return await self._finish(refused_by_model(state, writer, reply, thought, end))
        return await self._answered(reply, thought, end)

    async def _ask_again(self, error: ModelUnavailable) -> StepOutcome | None:
        """The model broke off in the midst of its reply: the step fails, and the next one asks it again."""
        self._retries += 1
        await asyncio.sleep(error.retry_after or _BACKOFF.delay(self._retries))
        return await self._commit(
            StepResult((), StepEnd(self._state.step_id, StepStatus.FAILED, error=str(error)))
        )

    async def _answered(self, reply: Reply, thought: NewCard, end: StepEnd) -> StepOutcome | None:
        """Text without calls is the deliverable, unless a result was asked for or the profile requires another end."""
        writer = self._writer()
        expected, tools = self._state.toolkit.expected, self._state.profile.must_end_with
        if expected is not None and expected.is_required:
            note = writer.must_have(expected.asked, "text alone is not a result here")
            return await self._commit(StepResult([thought, note], end))
        if tools:
            return await self._commit(StepResult([thought, writer.must_end_with(tools)], end))
        verdict = await guard_output(self._services, self._state, reply.text)
        if verdict.refusal is not None and verdict.refusal.retry:
            return await self._commit(StepResult([thought, feedback(self._state, verdict.refusal)], end))
        if verdict.refusal is not None:
            return await self._refuse_output(reply.text, verdict, end)
        if verdict.is_changed and verdict.value != reply.text:
            reply = with_text(reply, str(verdict.value))
            thought = writer.thought(reply)
        if verdict.ask is not None:
            return await self._commit(ask_about_text(self._state, verdict, thought, end))
        deliverable = writer.answer(reply.text)
        return await self._finish(Ending(TaskStatus.SUCCESS, deliverable, cards=[thought], step=end))

    async def _refuse_output(self, value: Any, verdict: Verdict, end: StepEnd) -> StepOutcome | None:
        """The turn fails; what was refused is kept for people, and read by no model."""
        assert verdict.refusal is not None
        card = refused_output(self._state, value, verdict.refusal, verdict.by)
        end = replace(end, status=StepStatus.FAILED, error=verdict.refusal.reason)
        ending = failure(self._state, self._writer(), OUTPUT_REFUSED, verdict.refusal.reason, end)
        return await self._finish(replace(ending, cards=[card]))

    # -- its calls --------------------------------------------------------------------------------------------

    async def _store_calls(self, thought: NewCard, end: StepEnd) -> StepOutcome | None:
        """Store the calls of a thought before any is made; those for other processes are sent at the same time."""
        guarded = await guard_calls(self._services, self._state, self._route(thought.tool_calls))
        calls = [with_approval(call) for call in guarded]
        end = replace(end, tool_call_ids=[call.tool_call_id for call in calls])
        if calls[0].route is Route.SUBMIT:
            return await self._submit(thought, calls[0], end)
        cards = [thought, *(self._call_card(call) for call in calls), *self._refusals(calls, end.step_id)]
        if not any(call.route is Route.LOCAL for call in calls):
            return await self._commit(StepResult(cards, end, calls))
        await self._note(StepResult(cards, replace(end, status=StepStatus.TOOL_DISPATCHED), calls))
        return None

    async def _submit(self, thought: NewCard, call: Call, end: StepEnd) -> StepOutcome | None:
        writer = self._writer()
        cards = [thought, self._call_card(call)]
        try:
            content = (self._state.toolkit.expected or Expected()).accept(call.arguments)
            verdict = await guard_output(self._services, self._state, call.arguments.get("result"))
            if verdict.is_changed and verdict.refusal is None:
                call = replace(call, arguments={**call.arguments, "result": verdict.value})
                made = {**thought.tool_calls[0], "arguments": call.arguments}
                cards = [replace(thought, tool_calls=[made]), self._call_card(call)]
                content = (self._state.toolkit.expected or Expected()).accept(call.arguments)
        except InputError as error:
            refusal = writer.result(call, failed(INVALID_RESULT, str(error)))
            return await self._commit(StepResult([*cards, refusal], end))
        if verdict.refusal is not None and verdict.refusal.retry:
            refusal = writer.result(call, failed(OUTPUT_REFUSED, verdict.refusal.reason))
            return await self._commit(StepResult([*cards, refusal], end))
        if verdict.refusal is not None:
            return await self._refuse_output(call.arguments.get("result"), verdict, end)
        if verdict.ask is not None:
            return await self._commit(ask_about_result(self._state, verdict, thought, call, end))
        return await self._finish(submitted(writer, cards, call, content, end))

    async def _call_tools(self, action: CallTools) -> StepOutcome | None:
        """Call the functions of this process concurrently; calls to other processes were sent before."""
        routed = self._route(open_calls(action.calls, self._state))
        stored = stored_arguments(self._state, routed)
        calls = [approved_call(call, self._state.own) for call in stored]
        local = [call for call in calls if call.route is Route.LOCAL]
        if local:
            names = ", ".join(call.name for call in local)
            self._publish(state_event(self._state.head, activity=Activity.EXECUTING_TOOL, current_tool=names))
        calls_made = asyncio.gather(*(self._call(call) for call in local))
        outcomes = await timed(self._services, self._state, calls_made)
        writer = self._writer(action.step_id)
        cards = [writer.result(call, outcome) for call, outcome in zip(local, outcomes, strict=True)]
        cards += self._refusals(calls, action.step_id)
        cards += [writer.call(call, call.arguments) for call in calls if is_edited(call, self._state.own)]
        known = self._state.step_ends.get(action.step_id, StepEnd(action.step_id))
        return await self._commit(StepResult(cards, replace(known, status=StepStatus.COMPLETED), calls))

    async def _call(self, call: Call) -> Any:
        assert call.local is not None
        head = self._state.head
        about = ToolCall(
            call.tool_call_id, call.name, head.project_id, head.agent_id, head.active_agent_turn_id or ""
        )
        return await self._services.tools.call(call.local, about, call.arguments)

    async def _act(self, step: StepEnd) -> StepOutcome | None:
        """A person called a tool: the call is in the message that began the turn."""
        state = self._state
        if state.own:
            return await self._finish(end_action(self._writer(), state.own, step))
        row = await self._services.engine.database.run(
            "read", lambda tx: inbox.turn_row(tx, state.head.project_id, state.turn_id)
        )
        assert row is not None  # the message that began the turn
        request = self._writer().requested_call(row.payload["tool_name"], row.payload.get("args") or {})
        return await self._store_calls(request, step)

    def _route(self, calls: Sequence[Mapping[str, Any]]) -> list[Call]:
        """The calls with their routes; a tool whose subject is invalid is refused."""
        found = []
        for call in self._state.toolkit.routed(calls):
            try:
                self._subject(call)
            except ProtocolViolation as error:
                call = replace(call, route=Route.REFUSED, refusal=failed(str(error.code), str(error)))
            found.append(call)
        return found

    def _subject(self, call: Call) -> str | None:
        head = self._state.head
        if call.route not in (Route.COMMAND, Route.APPROVAL) or call.remote is None:
            return None
        return tool_subject(
            call.remote.target_subject, head.project_id, head.active_channel_id or "", head.agent_id
        )

    def _call_card(self, call: Call) -> NewCard:
        arguments = None if call.remote is None else full_arguments(call.remote, call.arguments)
        return self._writer().call(call, arguments, self._subject(call))

    def _refusals(self, calls: Sequence[Call], step_id: str) -> list[NewCard]:
        writer = self._writer(step_id)
        return [writer.result(call, call.refusal) for call in calls if call.refusal is not None]

    # -- commits ----------------------------------------------------------------------------------------------

    async def _note(self, step: StepResult) -> None:
        """running -> running: the calls are stored before they are made."""
        state, limits, bounds = self._state, self._services.engine.limits, self._services.limits

        def work(tx: Transaction) -> tuple[Head, SentCalls]:
            sent = send_calls(tx, state, step, limits, bounds)
            head = note(
                tx,
                state.head,
                cards=sent.cards,
                step=step.end,
                waits=sent.waits,
                lease_ms=limits.lease_ms,
                limits=limits,
            )
            return head, sent

        head, sent = await self._services.store(state.turn_id, work)
        state.step_ends[step.end.step_id] = step.end
        state.advance(head, sent.cards)
        state.awaited = {wait.tool_call_id for wait in sent.waits}
        self._publish(*sent.signals)
        if sent.waits:
            self._services.engine.relay.notify()

    async def _commit(self, step: StepResult) -> StepOutcome | None:
        engine, bounds = self._services.engine, self._services.limits
        outcome = await self._services.store(
            self._state.turn_id, lambda tx: commit_step(tx, self._state, step, engine.limits, bounds)
        )
        self._publish(*outcome.signals)
        return self._committed(outcome)

    async def _finish(self, ending: Ending) -> StepOutcome | None:
        limits = self._services.engine.limits
        return self._committed(
            await self._services.store(
                self._state.turn_id, lambda tx: finish_turn(tx, self._state, ending, limits)
            )
        )

    # -- events -----------------------------------------------------------------------------------------------

    def _committed(self, outcome: StepOutcome) -> StepOutcome | None:
        """Publish the events of a commit; the outcome if the turn suspended or ended."""
        state, engine = self._state, self._services.engine
        before, step_id = state.head, state.step_id
        cards = [card.card_id for card in outcome.cards]
        if isinstance(outcome, TurnEnded):
            self.has_ended = True
            succeeded = outcome.ending.status is TaskStatus.SUCCESS
            phase = StepPhase.COMPLETED if succeeded else StepPhase.FAILED
            engine.publish(outcome.result, events=[step_event(before, step_id, phase, new_card_ids=cards)])
            return outcome
        self._publish(step_event(before, step_id, StepPhase.COMPLETED, new_card_ids=cards))
        if isinstance(outcome, TurnSuspended):
            waiting = Activity.AWAITING_TOOL_RESULT
            self._publish(state_event(outcome.head, activity=waiting, waiting=outcome.calls))
            state.advance(outcome.head, outcome.cards)
            engine.relay.notify()
            return outcome
        assert isinstance(outcome, NextStep)
        state.advance(outcome.head, [*outcome.applied, *outcome.cards], outcome.step_id)
        state.awaited.clear()
        self._publish_started()
        return None

    def _publish_started(self) -> None:
        head = self._state.head
        self._publish(
            step_event(head, self._state.step_id, StepPhase.STARTED),
            state_event(head, activity=Activity.THINKING),
        )

    def _publish(self, *messages: Message) -> None:
        self._services.engine.tell(*messages)

    def _writer(self, step_id: str | None = None) -> CardWriter:
        return CardWriter(self._state.head, step_id or self._state.step_id, self._services.engine.limits)
