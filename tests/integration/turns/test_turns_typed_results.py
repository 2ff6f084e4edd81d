"""Turns whose result has a type: asked for, checked, corrected, stored, and given to the caller as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from pydantic_ai.models.test import TestModel
from support.turns_office import Barrier, Place, lose, office, results_in, run, until, wants

from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns import TurnFailed, WorkerLimits, local_tool, open_agents
from afl.turns.agents import Agents
from afl.turns.model import Limits
from afl.turns.statuses import CardType, TaskStatus


class Sum(BaseModel):
    total: int
    words: list[str] = []

    @field_validator("total")
    @classmethod
    def _small(cls, value: int) -> int:
        if value > 100:
            raise ValueError("too much")
        return value


@dataclass
class Verdict:
    score: int
    why: str


def submits(result: Any) -> Scripted:
    return wants(("submit_result", {"result": result}))


def test_a_typed_value_is_returned_and_stored(place: Place) -> None:
    asked: list[Request] = []

    def model(request: Request) -> Scripted:
        asked.append(request)
        return submits({"total": 5})

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            assert await there.agents.ask("ada", "2 and 3?", result=Sum) == Sum(total=5)
            turn = await there.agents.send("ada", "2 and 3?", result=Sum)
            delivered = await there.agents.wait(turn)
            assert (delivered.data, delivered.fields) == (
                {"total": 5, "words": []},
                {"total": "5", "words": "[]"},
            )
            assert delivered.value(Sum) == Sum(total=5)
            card = there.output(turn)[-1]
            assert (card.type, card.content["data"]) == (CardType.TASK_DELIVERABLE, {"total": 5, "words": []})

    run(work)
    (tool,) = asked[0].tools
    assert tool.input_schema["properties"]["result"]["properties"]["total"]["type"] == "integer"
    assert "Sum" in str(asked[0].messages)


def test_what_is_wrong_goes_back_to_the_model(place: Place) -> None:
    told: list[str] = []
    script: list[Scripted] = [
        "The sum is 5.",
        submits({"total": "five"}),
        submits({"total": 500}),
        submits({"total": 5, "words": ["two", "three"]}),
    ]

    def model(request: Request) -> Scripted:
        told.append(str(request.messages[-1].content))
        return script[len(told) - 1]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", result=Sum)
            delivered = await there.agents.ask("ada", "2 and 3?")
            assert delivered.value(Sum) == Sum(total=5, words=["two", "three"])

    run(work)
    assert "text alone is not a result here" in told[1] and "submit_result" in told[1]
    assert "total: Input should be a valid integer" in told[2]
    assert "total: Value error, too much" in told[3]  # a validator of the type: this process has it


@pytest.mark.parametrize(
    ("reply", "code", "said"),
    [
        (
            submits({"total": 500}),
            "invalid_result",
            "attempts: 2; the last one: total: Value error, too much",
        ),
        ("Five.", "missing_fields", "the turn came to no Sum; attempts: 2, the last one without a result"),
    ],
)
def test_after_the_limit_the_turn_fails_clearly(place: Place, reply: Scripted, code: str, said: str) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: reply, limits=WorkerLimits(corrections=1))
            await there.agents.define("ada")
            with pytest.raises(TurnFailed, match=said) as failed:
                await there.agents.ask("ada", "2 and 3?", result=Sum)
            assert failed.value.error_code == code

    run(work)


def test_a_worker_that_has_only_the_schema_checks_by_it(place: Place) -> None:
    """The caller is in another process than the worker, which does not know the type; the caller checks again."""
    told: list[str] = []

    def model(request: Request) -> Scripted:
        told.append(str(results_in(request)))
        return submits({"total": "five" if len(told) == 1 else 500})

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            elsewhere = Agents(there.agents.engine, there.agents.project)
            await elsewhere.listen()
            with pytest.raises(TurnFailed, match="delivered no Sum: total: Value error, too much"):
                await elsewhere.ask("ada", "2 and 3?", result=Sum)
            await elsewhere.close()

    run(work)
    assert "$.total" in told[1] and "is not of type" in told[1]


def test_a_worker_that_takes_over_checks_and_counts_on(place: Place) -> None:
    gate = Barrier()
    asked: list[str] = []

    def model(request: Request) -> Scripted:
        asked.append(str(results_in(request)))
        if len(asked) == 2:
            gate("the first worker is lost here")
        return submits({"total": 500} if len(asked) < 4 else {"total": 5})

    async def work() -> None:
        async with office(place, Limits(lease_ms=50)) as there:
            bounds = WorkerLimits(corrections=2)
            first = await there.hire(model, limits=bounds)
            await there.agents.define("ada", result=Sum)
            turn = await there.agents.send("ada", "2 and 3?")
            await until(lambda: len(asked) == 2)
            await lose(first)
            await there.hire(model, limits=bounds, watch_seconds=0.02)
            delivered = await there.agents.wait(turn)
            assert delivered.value(Sum) == Sum(total=5)
            gate.open()

    run(work)
    assert "too much" in asked[2] and "too much" in asked[3]


def test_a_tool_that_ends_the_turn_must_give_the_type(place: Place) -> None:
    def judge(full: bool) -> dict[str, Any]:
        """Judge."""
        return {"score": 9, "why": "good"} if full else {"score": "high"}

    tool = local_tool(judge, after_execution="terminate")
    replies = [wants(("judge", {"full": False})), wants(("judge", {"full": True}))]

    async def work() -> None:
        async with office(place) as there:
            left = iter(replies)
            await there.hire(lambda request: next(left), tools=[tool])
            await there.agents.define("ada", tools=["judge"])
            assert await there.agents.ask("ada", "judge", result=Verdict) == Verdict(9, "good")

    run(work)


def test_one_turn_of_a_conversation_has_a_type(place: Place) -> None:
    def model(request: Request) -> Scripted:
        if any(tool.name == "submit_result" for tool in request.tools):
            return submits([1, 2])
        return "Words."

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            talk = there.agents.conversation("ada")
            assert await talk.say("Numbers?", result=list[int]) == [1, 2]
            plain = await talk.say("And now?")
            assert (plain.status, plain.text) == (TaskStatus.SUCCESS, "Words.")

    run(work)


def test_settings_of_one_call_stand_over_those_of_the_agent(place: Place) -> None:
    asked: list[Request] = []

    def model(request: Request) -> Scripted:
        asked.append(request)
        return "Yes."

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", llm_config={"temperature": 0.5, "max_tokens": 100, "timeout": 9})
            await there.agents.ask("ada", "Well?")
            await there.agents.ask(
                "ada", "Well?", llm_config={"temperature": 0, "thinking": "low", "model": "m"}
            )
            with pytest.raises(ValueError, match="there is no setting 'temprature'"):
                await there.agents.ask("ada", "Well?", llm_config={"temprature": 0})

    run(work)
    first, second = asked
    assert (first.settings.temperature, first.max_tokens, first.model) == (0.5, 100, "")
    assert (second.settings.temperature, second.settings.thinking, second.settings.timeout) == (0, "low", 9)
    assert (second.model, second.max_tokens) == ("m", 100)


def test_a_model_of_pydantic_ai_gives_a_typed_result() -> None:
    """Its TestModel calls every tool once, by the schemas alone."""

    async def work() -> None:
        async with open_agents("memory://", model=TestModel()) as agents:
            await agents.define("ada")
            assert await agents.ask("ada", "2 and 3?", result=Sum) == Sum(total=0, words=[])

    run(work)
