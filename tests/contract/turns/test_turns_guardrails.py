"""Guardrails: checks on input, output and arguments that refuse or rewrite; on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Mapping
from typing import Any

import pytest
from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.kernel.errors import InputError
from afl.models import Request, ScriptedModel
from afl.models.messages import Text, ToolResult
from afl.models.scripted import calls
from afl.operations.turn.turn_view import view
from afl.turns import Guardrails, Refuse, open_agents
from afl.turns.guardrails import CheckBox, read_checks


def said(request: Request) -> list[str]:
    return [
        block.text if isinstance(block, Text) else block.content
        for message in request.messages
        for block in message.content
        if isinstance(block, (Text, ToolResult))
    ]


def redact(text: str) -> str:
    return text.replace("hunter2", "***")


def polite(text: str) -> Refuse | None:
    return Refuse("be polite") if "damn" in text else None


@in_event_loop
async def test_input_is_rewritten_for_every_model_that_reads_it(database: Database) -> None:
    model = ScriptedModel(["one", "two"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(input=[redact, polite]))
        session = agents.session("s", "guide")
        await session.ask("It is hunter2.")
        await session.ask("Go on.")
        assert [said(request) for request in model.requests] == [
            ["It is ***."],
            ["It is ***.", "one", "Go on."],
        ]


@in_event_loop
async def test_input_is_refused_with_a_reason(database: Database) -> None:
    model = ScriptedModel(["fine"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(input=[polite]))
        session = agents.session("s", "guide")
        refused = await session.ask("damn")
        assert (refused.status, refused.error_code, refused.error) == ("failed", "input_refused", "be polite")
        assert model.requests == []
        assert (await session.ask("please")).text == "fine"
        assert said(model.requests[0])[0] == "(This was refused: be polite)"


@in_event_loop
async def test_output_is_rewritten_or_refused(database: Database) -> None:
    model = ScriptedModel(["hunter2 it is", "damn", "fine"])
    heard: list[str] = []
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(output=[redact, polite]))
        session = agents.session("s", "guide")
        assert (await session.ask("1", on_text=heard.append)).text == "*** it is"
        turn = await session.send("2")
        refused = await agents.wait(turn)
        assert (refused.error_code, refused.error) == ("output_refused", "be polite")
        assert "damn" not in refused.text
        await session.ask("3")
        assert heard == [] and said(model.requests[-1])[:3] == ["1", "*** it is", "2"]
        assert "damn" not in str(model.requests[-1].messages)
        kept = database.read(lambda tx: view(tx, agents.project, turn.agent_turn_id)).cards
        assert [card.type for card in kept] == ["sys.guardrail", "task.deliverable"]
        assert "damn" in kept[0].text


@in_event_loop
async def test_a_model_may_try_again(database: Database) -> None:
    def short(text: Any) -> Refuse | None:
        return Refuse("at most five letters", retry=True) if len(text) > 5 else None

    model = ScriptedModel(["much too long", "ok"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(output=[short]))
        assert (await agents.ask("guide", "q")).text == "ok"
        assert "at most five letters. Answer again." in said(model.requests[1])[-1]


@in_event_loop
async def test_results_are_checked_as_data(database: Database) -> None:
    def capped(result: Any) -> Any:
        if result["n"] < "0":
            return Refuse("n is below 0", retry=True)
        return {**result, "n": "9"} if result["n"] == "99" else None

    script = [calls("submit_result", {"result": {"n": n}}) for n in ("-1", "99")]
    model = ScriptedModel(script)
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", guardrails=Guardrails(output=[capped]))
        delivered = await agents.ask("guide", "q", fields={"n": "a number"})
        assert delivered.fields == {"n": "9"}
        assert "n is below 0" in said(model.requests[1])[-1]


@in_event_loop
async def test_arguments_are_rewritten_or_refused(database: Database) -> None:
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    async def small(tool: str, arguments: Mapping[str, Any]) -> Any:
        await asyncio.sleep(0)
        if arguments["amount"] > 100:
            return Refuse(f"{tool}: at most 100")
        return {"amount": 10} if arguments["amount"] > 10 else None

    script = [calls("pay", {"amount": amount}) for amount in (500, 50, 5)]
    model = ScriptedModel([*script, "done"])
    async with open_agents(database, model=model) as agents:
        await agents.define("guide", tools=[pay], guardrails=Guardrails(tools=[small]))
        turn = await agents.send("guide", "pay")
        assert (await agents.wait(turn)).text == "done"
        assert paid == [10, 5]
        assert "pay: at most 100" in said(model.requests[1])[-1]
        cards = database.read(lambda tx: view(tx, agents.project, turn.agent_turn_id)).cards
        assert [card.text for card in cards if card.type == "tool.call"][1:] == [
            '{"amount":10}',
            '{"amount":5}',
        ]


@in_event_loop
async def test_a_worker_without_the_check_refuses(database: Database) -> None:
    async with open_agents(database) as agents:
        await agents.define("guide", guardrails=Guardrails(input=[polite]))
    async with open_agents(database, model=ScriptedModel(["fine"])) as agents:
        assert "no check 'polite'" in (await agents.ask("guide", "please")).error


@in_event_loop
async def test_a_check_that_raises_refuses() -> None:
    def broken(text: str) -> None:
        raise ValueError("no service")

    box = CheckBox()
    box.add([broken, polite])
    verdict = await box.run(["broken"], "x")
    assert verdict.refusal == Refuse("the check broken failed: no service")
    assert (await box.run(["polite"], "x")).value == "x"


@in_event_loop
async def test_a_check_may_return_a_coroutine() -> None:
    async def later(text: str) -> Refuse:
        await asyncio.sleep(0)
        return Refuse("not today")

    @functools.wraps(later)
    def decorated(text: str) -> Any:
        return later(text)

    box = CheckBox()
    box.add([decorated])
    assert (await box.run(["later"], "x")).refusal == Refuse("not today")


@in_event_loop
@pytest.mark.parametrize("kind", [StopIteration, asyncio.CancelledError, SystemExit])
async def test_whatever_a_check_raises_refuses(kind: type[BaseException]) -> None:
    async def later(text: str) -> None:
        raise kind("no more")

    def at_once(text: str) -> None:
        raise kind("no more")

    box = CheckBox()
    box.add([later, at_once])
    for name in ("later", "at_once"):
        async with asyncio.timeout(5):
            verdict = await box.run([name], "x")
        assert verdict.refusal is not None and f"the check {name} failed: " in verdict.refusal.reason


def test_what_is_no_check() -> None:
    def polite(text: str) -> None: ...

    box = CheckBox()
    box.add([globals()["polite"]])
    with pytest.raises(InputError, match="two checks have the name 'polite'"):
        box.add([polite])
    with pytest.raises(InputError, match="a function with a name"):
        box.add([lambda text: None])
    with pytest.raises(InputError, match="input, output, tools"):
        read_checks({"inputs": []}, "profile x")
