"""A turn whose model refuses fails and says so, whoever the provider is: the real clients, and a script."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from unit.models.conftest import Opened

from afl.devstack.model_server import Said
from afl.models import Reply, ScriptedModel, Text
from afl.models.messages import StopReason
from afl.turns import Delivered, Guardrails, open_agents

REFUSED = Reply((Text("I will not."),), StopReason.REFUSAL)


def asked(model: Any, **definition: Any) -> Delivered:
    async def ask() -> Delivered:
        async with open_agents("memory://", model=model) as agents:
            await agents.define("guide", **definition)
            return await agents.ask("guide", "How?")

    return asyncio.run(ask())


@pytest.mark.parametrize("typed", [False, True])
def test_it_fails_with_every_provider(opened: Opened, wire: str, typed: bool) -> None:
    told = {"type": "text" if wire == "messages" else "refusal", "text": "I will not."}
    model, server = opened(Said([told], "refusal"), "never asked again")
    got = asked(model, result=dict[str, int]) if typed else asked(model)
    assert (got.succeeded, got.error_code) == (False, "model_refused")
    assert got.error is not None and got.error.startswith(f"the model {model.name} refused: ")
    assert len(server.requests) == 1


def test_unchecked_words_of_a_refusal_are_told_to_nobody() -> None:
    def fine(text: str) -> None:
        return None

    got = asked(ScriptedModel([REFUSED]), guardrails=Guardrails(output=[fine]))
    assert (got.error_code, got.error) == ("model_refused", "the model scripted refused")
    assert "will not" not in got.text


def test_a_session_goes_on_after_a_refusal() -> None:
    async def main() -> None:
        model = ScriptedModel([REFUSED, "fine"])
        async with open_agents("memory://", model=model) as agents:
            await agents.define("guide")
            session = agents.session("s", "guide")
            assert (await session.ask("1")).error == "the model scripted refused: I will not."
            assert (await session.ask("2")).text == "fine"
            said = [block for message in model.requests[1].messages for block in message.content]
            assert [block.text for block in said if isinstance(block, Text)] == ["1", "I will not.", "2"]

    asyncio.run(main())
