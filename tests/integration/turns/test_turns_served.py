"""Agents of Pydantic AI as agents of turns: unchanged, and stored step by step."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, ToolReturn
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from support.postgres_proxy import Proxy
from support.turns_office import Office, Place, lose, office, run, until

from afl.kernel.errors import InputError
from afl.turns import Limits, TurnFailed, WorkerLimits, current_call, serve
from afl.turns.statuses import CardType, TaskStatus

MEMORY = Place("memory://", None)
NO_MODEL = ["nobody asks this one"]


@dataclass
class Shop:
    prices: dict[str, int]


class Invoice(BaseModel):
    item: str
    cents: int


def user_prompts(messages: list[ModelMessage]) -> list[Any]:
    return [part.content for each in messages for part in each.parts if isinstance(part, UserPromptPart)]


def kinds(there: Office, turn: Any) -> list[str]:
    return [str(card.type) for card in there.output(turn)]


def test_its_tools_dependencies_and_output_type_work_unchanged(place: Place) -> None:
    keys: list[str] = []
    agent = Agent(TestModel(), name="clerk", deps_type=Shop, output_type=Invoice, instructions="You sell.")

    @agent.tool
    def price(ctx: RunContext[Shop], item: str) -> int:
        keys.append(current_call().idempotency_key)
        return ctx.deps.prices.get(item, 7)

    async def work() -> None:
        async with office(place) as there:
            await there.hire(NO_MODEL)
            await there.agents.serve(agent, deps=Shop({}))
            turn = await there.agents.send("clerk", "Tea.", result=Invoice)
            got = await there.agents.wait(turn)
            assert (got.status, got.value(Invoice)) == (TaskStatus.SUCCESS, Invoice(item="a", cents=0))
            cards = there.output(turn)
            assert [card.type for card in cards] == [
                *("agent.thought", "tool.call", "tool.result"),
                *("agent.thought", "tool.result", "task.deliverable"),
            ]
            assert cards[2].content["result"] == 7
            assert keys == [f"{there.project}/{cards[1].tool_call_id}"]
            assert there.count("state.agent_steps") == 2
            invoice = await there.agents.ask("clerk", "More.", result=Invoice)
            assert invoice.cents == 0

    run(work)


def test_retries_are_the_agents_own() -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = str(messages[-1])
        if "Say a number" in told:
            return ModelResponse([ToolCallPart("final_result", {"item": "tea", "cents": "x"}, "same")])
        if "valid integer" in told:
            return ModelResponse([ToolCallPart("final_result", {"item": "tea", "cents": 1}, "same")])
        if "too cheap" in told:
            return ModelResponse([ToolCallPart("final_result", {"item": "tea", "cents": 5}, "same")])
        return ModelResponse([ToolCallPart("pick", {"n": 1}, "same"), ToolCallPart("nothing", {}, "other")])

    agent = Agent(FunctionModel(answer), name="clerk", output_type=Invoice, retries=3)

    @agent.tool_plain
    def pick(n: int) -> str:
        raise ModelRetry("Say a number")

    @agent.output_validator
    def check(value: Invoice) -> Invoice:
        if value.cents < 5:
            raise ModelRetry("too cheap")
        return value

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(NO_MODEL)
            await there.agents.serve(agent)
            turn = await there.agents.send("clerk", "Tea.")
            assert (await there.agents.wait(turn)).data == {"item": "tea", "cents": 5}
            results = [card for card in there.output(turn) if card.type == CardType.TOOL_RESULT]
            assert [card.function_name for card in results] == ["pick", "nothing", *["final_result"] * 3]
            assert [card.content["status"] for card in results] == [*["failed"] * 4, "success"]
            assert "too cheap" in results[3].content["error"]["message"]
            assert "Say a number" in results[0].content["error"]["message"]
            assert "Unknown tool name" in results[1].content["error"]["message"]

    run(work)


def test_a_turn_that_is_taken_over_goes_on_from_its_cards() -> None:
    """The second worker asks the model nothing that was answered, and calls no tool that was done."""
    asked: list[int] = []
    called: list[str] = []
    gate = asyncio.Event()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(len(messages))
        if len(messages) == 1:
            parts = [ToolCallPart("retried", {}), ToolCallPart("rich", {}), ToolCallPart("slow", {})]
            return ModelResponse(parts)
        return ModelResponse([TextPart(" | ".join(str(part.content) for part in messages[-1].parts))])

    agent = Agent(FunctionModel(answer), name="clerk")

    @agent.tool_plain
    def retried() -> str:
        called.append("retried")
        raise ModelRetry("again")

    @agent.tool_plain
    def rich() -> ToolReturn[list[Invoice]]:
        called.append("rich")
        return ToolReturn([Invoice(item="tea", cents=5)], content="look", metadata={"a": 1})

    @agent.tool_plain
    async def slow() -> str:
        called.append("slow")
        if called.count("slow") == 1:
            await gate.wait()
        return "done"

    async def work() -> None:
        async with office(MEMORY, Limits(lease_ms=300)) as there:
            first = await there.hire(NO_MODEL)
            await there.agents.serve(agent)
            turn = await there.agents.send("clerk", "Go.")
            await until(lambda: there.count("cardbox.cards", "type = 'tool.result'") == 2)
            await lose(first)
            await there.hire(NO_MODEL, watch_seconds=0.05)
            got = await there.agents.wait(turn)
            assert got.text.startswith("again | [") and "'cents': 5" in got.text
            assert got.text.endswith("done | look")
            assert asked == [1, 3]
            assert sorted(called) == ["retried", "rich", "slow", "slow"]

    run(work)


def test_a_tool_is_not_called_again_because_the_store_was_away(
    empty_postgres_url: str, nats_url: str
) -> None:
    calls: list[int] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if "paid 5" in str(messages[-1]):
            return ModelResponse([TextPart("Thank you.")])
        return ModelResponse([ToolCallPart("pay", {"euros": 5})])

    agent = Agent(FunctionModel(answer), name="clerk")

    @agent.tool_plain
    def pay(euros: int) -> str:
        calls.append(euros)
        return f"paid {euros}"

    async def work() -> None:
        with Proxy(empty_postgres_url) as proxy:
            proxy.cut_at, proxy.deliver = b"paid 5", False
            async with office(Place(proxy.url, nats_url)) as there:
                await there.hire(NO_MODEL)
                await there.agents.serve(agent)
                assert (await there.agents.ask("clerk", "Tea.")).text == "Thank you."
                assert proxy.cut_at is None  # the line was cut
        assert calls == [5]

    run(work)


def test_its_words_are_published_and_earlier_turns_are_its_history() -> None:
    seen: list[list[Any]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.append(user_prompts(messages))
        assert "You are polite." in str(messages[0].parts)
        for word in ("Good ", "day."):
            yield word

    agent = Agent(FunctionModel(stream_function=answer), system_prompt="You are polite.")

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(NO_MODEL)
            await there.agents.serve(agent, "host")
            words: list[str] = []
            talk = there.agents.conversation("host")
            assert (await talk.say("Hello.", on_text=words.append)).text == "Good day."
            assert words == ["Good ", "day."]
            await talk.say("Again.")
            assert seen == [["Hello."], ["Hello.", "Again."]]

    run(work)


def test_how_its_turns_fail() -> None:
    def raises(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([ToolCallPart("broken", {})])

    agent = Agent(FunctionModel(raises), name="broken")
    endless = Agent(FunctionModel(raises), name="endless")

    @agent.tool_plain
    def broken() -> str:
        raise ZeroDivisionError("by zero")

    @endless.tool_plain(name="broken")
    def fine() -> str:
        return "more"

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(NO_MODEL, limits=WorkerLimits(max_steps=3))
            for each in (agent, endless):
                await there.agents.serve(each)
            got = await there.agents.ask("broken", "Go.")
            assert (got.error_code, got.error) == ("ZeroDivisionError", "by zero")
            assert (await there.agents.ask("endless", "Go.")).error_code == "max_steps_reached"
            await there.agents.serve(Agent(TestModel(), name="texts"))
            with pytest.raises(TurnFailed, match="Invoice"):
                await there.agents.ask("texts", "Go.", result=Invoice)

    run(work)


def test_a_tool_that_fails_while_others_are_stored_ends_the_turn_once() -> None:
    """Pydantic AI cancels the other calls of the step; what they were storing is stored, and the turn ends."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([*(ToolCallPart("fine", {}) for _ in range(4)), ToolCallPart("broken", {})])

    agent = Agent(FunctionModel(answer), name="clerk")

    @agent.tool_plain
    async def fine() -> str:
        return "fine"

    @agent.tool_plain
    async def broken() -> str:
        raise ZeroDivisionError("by zero")

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(NO_MODEL)
            await there.agents.serve(agent)
            for _ in range(3):
                assert (await there.agents.ask("clerk", "Go.")).error_code == "ZeroDivisionError"
            assert there.count("state.outbox", "kind = 'task'") == 3

    run(work)


def test_a_turn_is_stopped_in_a_tool() -> None:
    begun = asyncio.Event()
    agent = Agent(TestModel(), name="clerk")

    @agent.tool_plain
    async def endless() -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    async def work() -> None:
        async with office(MEMORY) as there:
            await there.hire(NO_MODEL)
            await there.agents.serve(agent)
            turn = await there.agents.send("clerk", "Go.")
            await begun.wait()
            await there.agents.stop(turn)
            assert (await there.agents.wait(turn)).status == TaskStatus.CANCELED
            assert there.count("state.outbox", "kind = 'task'") == 1

    run(work)


def test_what_cannot_be_served() -> None:
    with pytest.raises(InputError, match="takes an agent of Pydantic AI"):
        serve("guide")
    with pytest.raises(InputError, match="has no name"):
        serve(Agent(TestModel()))
    with pytest.raises(InputError, match="has no model"):
        serve(Agent(name="x"))
