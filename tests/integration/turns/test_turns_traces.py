"""A turn belongs to what set it off, its steps to the turn, their calls to them; also across processes."""

from __future__ import annotations

from typing import Any

from opentelemetry.trace import StatusCode
from support.traces import traced
from support.turns_office import Place, last_text, office, results_in, run, told_first, until, wants

from afl.kernel import telemetry
from afl.models import ModelRejected, Request
from afl.models.scripted import Scripted
from afl.turns.tools.local import local_tool
from afl.turns.tools.service import ToolService


def shout(word: str) -> str:
    """Say it louder."""
    if word == "no":
        raise ValueError("not that")
    return word.upper()


def test_steps_model_calls_and_tools_of_a_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(told_first([("shout", {"word": "hey"}), ("shout", {"word": "no"})]))
            await there.agents.define("ada", tools=[shout])
            with traced() as told:
                got = await there.agents.ask("ada", "go")
                await until(lambda: told.has_whole("afl.turn"))
                assert len(told.traces) == 1
                assert [line for line in told.parents() if not line.startswith("afl.turn.step")] == [
                    "afl.model < afl.turn.step",
                    "afl.model < afl.turn.step",
                    "afl.tool < afl.turn.step",
                    "afl.tool < afl.turn.step",
                    "afl.turn < -",
                ]
                assert {line for line in told.parents() if line.startswith("afl.turn.step")} == {
                    "afl.turn.step < afl.turn"
                }
                failed = [
                    span for span in told.named("afl.tool") if span.status.status_code is StatusCode.ERROR
                ]
                assert [span.status.description for span in failed] == ["ValueError: not that"]
                about = dict(told.named("afl.turn")[0].attributes or {})
                assert (about["afl.turn"], about["afl.agent"]) == (got.agent_turn_id, "ada")

    run(work)


def test_a_turn_belongs_to_the_span_that_asked_for_it(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: "done")
            await there.agents.define("ada")
            with traced() as told:
                with telemetry.span("mine"):
                    await there.agents.ask("ada", "go")
                await until(lambda: told.has_whole("afl.turn"))
                assert "afl.turn < mine" in told.parents() and len(told.traces) == 1

    run(work)


def test_delegated_turns_are_in_the_same_trace(place: Place) -> None:
    def boss(request: Request) -> Scripted:
        if answered := results_in(request):
            return " | ".join(answered)
        if request.system == "boss":
            return wants(("fork_join", {"tasks": [job("writer", "write"), job("reader", "read")]}))
        return last_text(request).upper()

    def job(ref: str, what: str) -> dict[str, Any]:
        return {"target_strategy": "new", "target_ref": ref, "instruction": what}

    async def work() -> None:
        async with office(place) as there:
            await there.hire(boss)
            await there.agents.define("ada", "boss", delegation_policy={})
            await there.agents.define("writer")
            await there.agents.define("reader")
            with traced() as told:
                await there.agents.ask("ada", "go")
                await until(lambda: told.has_whole("afl.turn", 3))
                turns = [line for line in told.parents() if line.startswith("afl.turn <")]
                assert turns == ["afl.turn < -", "afl.turn < afl.turn", "afl.turn < afl.turn"]
                assert len(told.traces) == 1

    run(work)


def test_a_tool_of_another_process_belongs_to_the_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            service = ToolService(there.engine, there.project, [local_tool(shout, timeout=30)])
            await service.register()
            await service.start()
            await there.hire(told_first([("shout", {"word": "hey"})]))
            await there.agents.define("ada", tools=["shout"])
            with traced() as told:
                await there.agents.ask("ada", "go")
                await until(lambda: told.has_whole("afl.turn"))
                assert "afl.tool < afl.turn" in told.parents() and len(told.traces) == 1
            await service.stop()

    run(work)


def test_a_turn_that_fails_says_so(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire([ModelRejected("no such model")])
            await there.agents.define("ada")
            with traced() as told:
                await there.agents.ask("ada", "go")
                await until(lambda: told.has_whole("afl.turn"))
                (turn,) = told.named("afl.turn")
                assert turn.status.description == "no such model"
                assert turn.parent is None

    run(work)
