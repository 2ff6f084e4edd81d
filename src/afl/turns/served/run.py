"""A turn that an agent of Pydantic AI runs: its requests and calls are cards, and a takeover replays them.

The agent is run from the beginning by whoever has the turn. What is in the cards is answered from them, so that it
comes to the same place without asking its model or calling its tools again; from there on everything is new.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_ai.capabilities.reinject_system_prompt import ReinjectSystemPrompt
from pydantic_ai.exceptions import AgentRunError, ToolFailedError, ToolRetryError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.tools import DeferredToolRequests

from afl.kernel.database import Transaction
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, InputError
from afl.models.naming import full_name
from afl.models.provider_messages import reply_of
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.cardbox.deliverable import answer_content, typed_content
from afl.turns.errors import ContentTooLarge, ContentUnavailable
from afl.turns.model import Head
from afl.turns.protocol.events import state_event, step_event
from afl.turns.protocol.ids import new_id
from afl.turns.served import codec
from afl.turns.served.agent import ServedAgent
from afl.turns.served.capability import OnText, StoredRun
from afl.turns.served.files import FILES, restored, take_out
from afl.turns.served.prompt import prompt_and_history
from afl.turns.statuses import Activity, AfterExecution, CardType, StepPhase, StepStatus, TaskStatus
from afl.turns.store.steps import StepEnd
from afl.turns.tools.local import ToolCall, calling
from afl.turns.tools.outcome import Outcome, failed
from afl.turns.transitions import Ending, next_step, note
from afl.turns.worker.model_call import text_stream, usage_metadata
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.step_commit import INVALID_RESULT, StepOutcome, exhausted, failure
from afl.turns.worker.toolkit import Call, Route
from afl.turns.worker.turn_run import CONTENT_UNAVAILABLE, TurnRun
from afl.turns.worker.turn_state import TurnState

T = TypeVar("T")


class _Exhausted(Exception):
    """The turn has used up its steps."""


class ServedRun(TurnRun):
    """Runs one turn of a served agent."""

    def __init__(self, services: WorkerServices, state: TurnState) -> None:
        super().__init__(services, state)
        self._lock = asyncio.Lock()
        self._commits: set[asyncio.Task[Any]] = set()
        self._lost: Exception | None = None  # the store failed, or the turn is another worker's
        self._thoughts = [card for card in state.own if card.type == CardType.AGENT_THOUGHT]

    async def run(self) -> None:
        """Run the agent to its end; FencedError when the turn is no longer this worker's."""
        name = self._state.profile.name  # of the agent itself, also in a session
        served = self._services.toolbox.served.get(name)
        if served is None:
            raise InputError(f"this worker does not serve {name}: its module lacks the agent")
        self._publish_started()
        try:
            result = await self._run_agent(served)
        except Exception as error:
            await self._settled()
            if self._lost is not None:
                raise self._lost from error
            await self._failed(error)
            return
        await self._end(result.output)

    async def _run_agent(self, served: ServedAgent) -> Any:
        content = self._services.engine.content
        prompt, history = await prompt_and_history(self._state, content)
        capabilities = [StoredRun(self), ReinjectSystemPrompt[Any](), *served.options.get("capabilities", ())]
        return await served.agent.run(
            prompt or None,
            message_history=history or None,
            deps=await served.new_deps(),
            run_id=self._state.turn_id,
            **{**served.options, "capabilities": capabilities},
        )

    # -- what the run is stored by (StepStore) ----------------------------------------------------------------

    async def response(
        self,
        index: int,
        messages: list[ModelMessage],
        outputs: frozenset[str],
        ask: Callable[[], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        if index < len(self._thoughts):
            return codec.response_of(self._thoughts[index].content[codec.STORED])
        if self._thoughts and self._thoughts[-1].step_id == self._state.step_id:
            await self._serialized(self._begin_step(messages))
        response = await ask()
        return await self._serialized(self._store_response(response, outputs))

    async def result(self, call: ToolCallPart, execute: Callable[[], Awaitable[Any]]) -> Any:
        stored = self._result_of(call.tool_call_id)
        if stored is not None:
            return await restored(self._services.engine.content, stored)
        head = self._state.head
        about = ToolCall(
            call.tool_call_id, call.tool_name, head.project_id, head.agent_id, self._state.turn_id
        )
        self._publish(state_event(head, activity=Activity.EXECUTING_TOOL, current_tool=call.tool_name))
        try:
            with calling(about):
                value, more = codec.result_data(await execute())
        except (ToolRetryError, ToolFailedError) as error:
            code = codec.RETRY if isinstance(error, ToolRetryError) else codec.FAILED
            await self._serialized(self._store_result(call, failed(code, _told(error)), None))
            raise
        outcome, stored_more = await self._kept(value, more)
        card = await self._serialized(self._store_result(call, outcome, stored_more))
        return await restored(self._services.engine.content, card)

    async def _kept(self, value: Any, more: dict[str, Any]) -> tuple[Outcome, dict[str, Any] | None]:
        """The outcome of a tool, whose files are stored; one whose files cannot be is told to the model."""
        taken = take_out({"value": value, "more": more["more"]})
        if not taken.files:
            return Outcome("success", value), more
        card, head = new_id("card"), self._state.head
        try:
            parts = await self._services.engine.content.keep(head.project_id, card, taken.files)
        except (ContentTooLarge, ContentUnavailable) as error:
            return failed(codec.FAILED, str(error)), None
        stored = {**more, "more": taken.data["more"], FILES: taken.places}
        return Outcome("success", taken.data["value"], parts=parts, card_id=card), stored

    @contextmanager
    def words(self) -> Iterator[OnText | None]:
        if not self._state.llm.stream:
            yield None
            return
        with text_stream(self._services, self._state) as stream:
            yield stream.say

    # -- commits ----------------------------------------------------------------------------------------------

    async def _serialized(self, work: Coroutine[Any, Any, T]) -> T:
        """Commits follow each other, also those of concurrent calls; a canceled caller leaves none half done."""

        async def locked() -> T:
            async with self._lock:
                return await work

        task = asyncio.create_task(locked())
        self._commits.add(task)
        task.add_done_callback(self._note_commit)
        try:
            return await asyncio.shield(task)
        except AgentFlowError as error:
            self._lost = self._lost or error
            raise

    def _note_commit(self, task: asyncio.Task[Any]) -> None:
        self._commits.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; asyncio need not report it

    async def _settled(self) -> None:
        """Wait for commits whose callers are gone: when a tool raises, the others of its step are canceled."""
        while self._commits:
            await asyncio.wait(set(self._commits))

    async def _begin_step(self, messages: Sequence[ModelMessage]) -> None:
        """End the step of the last response, with results of calls that no tool has answered."""
        state, limits = self._state, self._services.engine.limits
        if self._services.limits.steps_left(state.head.steps) == 0:
            raise _Exhausted
        before, step_id, cards = state.step_id, new_id("step"), self._answers(messages)
        head = await self._services.write(
            lambda tx: next_step(
                tx,
                state.head,
                step_id=step_id,
                cards=cards,
                ended=replace(state.step_ends.get(before, StepEnd(before)), status=StepStatus.COMPLETED),
                lease_ms=limits.lease_ms,
                limits=limits,
            )
        )
        ids = [card.card_id for card in cards]
        self._publish(step_event(state.head, before, StepPhase.COMPLETED, new_card_ids=ids))
        state.advance(head, cards, step_id)
        self._publish_started()

    async def _store_response(self, response: ModelResponse, outputs: frozenset[str]) -> ModelResponse:
        """The response with ids of ours for its calls, stored."""
        provider, model = response.provider_name, response.model_name or ""
        reply = reply_of(response, full_name(provider, model) if provider else model)
        writer = self._writer()
        thought = writer.thought(reply)
        response = codec.with_ids(response, [call["id"] for call in thought.tool_calls])
        thought = replace(thought, content={**thought.content, codec.STORED: codec.response_data(response)})
        calls = [_call(each["id"], each["name"], each["arguments"]) for each in thought.tool_calls]
        end = StepEnd(
            self._state.step_id,
            StepStatus.TOOL_DISPATCHED,
            metadata=usage_metadata(reply, self._services.prices),
            tool_call_ids=[call.tool_call_id for call in calls],
        )
        cards = [thought, *(writer.call(call) for call in calls if call.name not in outputs)]
        await self._store(cards, end)
        self._state.step_ends[end.step_id] = end
        self._thoughts = [card for card in self._state.own if card.type == CardType.AGENT_THOUGHT]
        return response

    async def _store_result(self, call: ToolCallPart, outcome: Outcome, data: Any) -> NewCard:
        card = self._result_card(call.tool_call_id, call.tool_name, outcome)
        if data is not None and card.content["error"] is None:
            card = replace(card, content={**card.content, codec.STORED: data})
        await self._store([card], None)
        return card

    async def _store(self, cards: Sequence[NewCard], end: StepEnd | None) -> None:
        limits = self._services.engine.limits

        def work(tx: Transaction) -> Head:
            return note(tx, self._state.head, cards=cards, step=end, lease_ms=limits.lease_ms, limits=limits)

        self._state.advance(await self._services.store(self._state.turn_id, work), cards)

    # -- ends -------------------------------------------------------------------------------------------------

    async def _end(self, output: Any) -> StepOutcome | None:
        state, expected = self._state, self._state.toolkit.expected
        if isinstance(output, DeferredToolRequests):
            why = "its tools wait for approval or for results from outside, which a served agent cannot"
            return await self._fail("deferred_tools", why)
        try:
            if expected is not None and expected.is_required:
                content = expected.accept({"result": codec.plain(output)})
            else:
                content = (
                    answer_content(output) if isinstance(output, str) else typed_content(codec.plain(output))
                )
        except InputError as error:
            asked = "a result" if expected is None else expected.asked
            return await self._fail(INVALID_RESULT, f"its output is not {asked}: {error}")
        cards = [self._accepted(each) for each in self._unanswered()]
        step = replace(
            state.step_ends.get(state.step_id, StepEnd(state.step_id)), status=StepStatus.COMPLETED
        )
        deliverable = self._writer().deliverable(content)
        return await self._finish(Ending(TaskStatus.SUCCESS, deliverable, cards=cards, step=step))

    async def _failed(self, error: Exception) -> StepOutcome | None:
        if isinstance(error, _Exhausted):
            return await self._finish(exhausted(self._state, self._writer(), StepEnd(self._state.step_id)))
        if isinstance(error, ContentUnavailable):
            return await self._fail(CONTENT_UNAVAILABLE, str(error))
        if isinstance(error, AgentFlowError):
            raise error
        code = "model_error" if isinstance(error, AgentRunError) else type(error).__name__
        return await self._fail(code, error_text(error))

    async def _fail(self, code: str, why: str) -> StepOutcome | None:
        step = StepEnd(self._state.step_id, StepStatus.FAILED, error=why)
        return await self._finish(failure(self._state, self._writer(), code, why, step))

    # -- cards ------------------------------------------------------------------------------------------------

    def _result_of(self, tool_call_id: str) -> Card | None:
        results = (card for card in self._state.own if card.type == CardType.TOOL_RESULT)
        return next((card for card in results if card.tool_call_id == tool_call_id), None)

    def _unanswered(self) -> list[dict[str, Any]]:
        """The calls of the last response that have no result: those of output tools, or that were never made."""
        calls = self._thoughts[-1].tool_calls if self._thoughts else ()
        return [dict(call) for call in calls if self._result_of(call["id"]) is None]

    def _answers(self, messages: Sequence[ModelMessage]) -> list[NewCard]:
        """Result cards of calls that Pydantic AI answered itself, as the next request has them."""
        said = next((each.parts for each in reversed(messages) if isinstance(each, ModelRequest)), ())
        parts = {
            part.tool_call_id: part for part in said if isinstance(part, (ToolReturnPart, RetryPromptPart))
        }
        cards = []
        for call in self._unanswered():
            part = parts.get(call["id"])
            if isinstance(part, ToolReturnPart) and part.outcome == "success":
                outcome = Outcome("success", part.model_response_str())
            elif isinstance(part, ToolReturnPart):
                outcome = failed(str(part.outcome), part.model_response_str())
            else:
                told = "it was not called" if part is None else part.model_response()
                outcome = failed(codec.RETRY, told)
            cards.append(self._result_card(call["id"], call["name"], outcome))
        return cards

    def _accepted(self, call: dict[str, Any]) -> NewCard:
        outcome = Outcome("success", "accepted", after_execution=AfterExecution.TERMINATE)
        return self._result_card(call["id"], call["name"], outcome)

    def _result_card(self, tool_call_id: str, name: str, outcome: Outcome) -> NewCard:
        step = self._thoughts[-1].step_id if self._thoughts else None
        return self._writer(step).result(_call(tool_call_id, name, {}), outcome)


def _call(tool_call_id: str, name: str, arguments: Any) -> Call:
    return Call(tool_call_id, name, arguments, Route.LOCAL)


def _told(error: ToolRetryError | ToolFailedError) -> str:
    if isinstance(error, ToolRetryError) and isinstance(error.tool_retry.content, str):
        return error.tool_retry.content
    return str(error)
