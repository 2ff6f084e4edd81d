"""Dependencies of tools and prompts made at run time: opened once for a worker, given to both, closed with it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from afl.kernel.database import connect
from afl.kernel.errors import AgentFlowError, InputError
from afl.models import Request, ScriptedModel
from afl.models.messages import ToolResult
from afl.models.scripted import Scripted, calls
from afl.turns import AgentContext, ToolService, local_tool, open_agents
from afl.turns.agents import Prompt


@dataclass
class Shop:
    name: str = "corner"
    log: list[str] = field(default_factory=list)


def left(context: AgentContext[Shop], item: str) -> str:
    """How many are left.

    Args:
        item: Of what.
    """
    context.deps.log.append(f"{context.agent_id} {context.tool_call_id != ''}")
    return f"7 {item} in {context.deps.name}"


async def sold(item: str, context: AgentContext[Shop]) -> str:
    """How many were sold."""
    return f"3 {item} by {context.deps.name}"


def greeting(context: AgentContext[Shop]) -> str:
    return f"You are {context.agent_id} of {context.deps.name}."


async def later(context: AgentContext[Shop]) -> str:
    return greeting(context)


def ask(deps: Any, *, tool: Any = left, prompt: Prompt = greeting) -> tuple[str, str]:
    """The prompt that the model was given, and what the turn delivered."""
    model = caller(tool.__name__)

    async def main() -> str:
        async with open_agents("memory://", model=model, deps=deps) as agents:
            await agents.define("clerk", prompt, tools=[tool])
            return (await agents.ask("clerk", "tea?")).text

    text = asyncio.run(main())
    return model.requests[0].system, text


def caller(tool: str) -> ScriptedModel:
    """It calls the tool, and says what that answered."""

    def answer(request: Request) -> Scripted:
        last = request.messages[-1].content[-1]
        return last.content if isinstance(last, ToolResult) else calls(tool, {"item": "tea"})

    return ScriptedModel(answer)


def test_the_parameter_is_not_shown_to_the_model() -> None:
    for function in (left, sold):
        schema = local_tool(function).tool.input_schema
        assert list(schema["properties"]) == ["item"] and schema["required"] == ["item"]
    assert local_tool(left).tool.input_schema["properties"]["item"]["description"] == "Of what."


@pytest.mark.parametrize("prompt", [greeting, later])
def test_tools_and_prompts_get_the_object(prompt: Prompt) -> None:
    shop = Shop()
    system, text = ask(shop, prompt=prompt)
    assert (system, text) == ("You are clerk of corner.", "7 tea in corner")
    assert shop.log == ["clerk True"]
    assert ask(shop, tool=sold)[1] == "3 tea by corner"


def test_they_are_opened_and_closed_with_the_worker() -> None:
    shop = Shop()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Shop]:
        shop.log.append("open")
        yield shop
        shop.log.append("closed")

    @contextmanager
    def plainly() -> Iterator[Shop]:
        with_log = shop
        yield with_log
        shop.log.append("closed too")

    async def awaited() -> Shop:
        return shop

    ask(opened)
    assert shop.log == ["open", "clerk True", "closed"]
    ask(plainly)
    assert shop.log[-1] == "closed too"
    assert ask(awaited)[1] == ask(lambda: shop)[1] == "7 tea in corner"


def test_a_worker_whose_dependencies_cannot_be_opened_does_not_start() -> None:
    def broken() -> Shop:
        raise OSError("the stock cannot be read")

    with pytest.raises(OSError, match="stock"):
        ask(broken)


def no_shop() -> Shop:
    raise OSError("no shop")


@pytest.mark.parametrize(
    "given",
    [
        {"model": ScriptedModel(["never"]), "deps": no_shop},
        {"model": 7},
        {"bus": "carrier pigeons"},
        {"bus": "nats://127.0.0.1:1"},
    ],
    ids=["deps", "model", "bus", "server"],
)
def test_agents_that_cannot_be_opened_leave_nothing_open(tmp_path: Path, given: dict[str, Any]) -> None:
    async def main() -> None:
        with pytest.raises((OSError, AgentFlowError)):
            async with open_agents(f"sqlite:///{tmp_path}/afl.db", **given):
                raise AssertionError("opened")

    asyncio.run(main())
    files = [os.path.realpath(each.path) for each in os.scandir("/proc/self/fd")]
    assert [each for each in files if each.startswith(str(tmp_path))] == []


class CanceledShop:
    """Dependencies that are opened when somebody presses Ctrl-C, in the middle of a start."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def __aenter__(self) -> None:
        self.log.append("open")
        task = asyncio.current_task()
        assert task is not None
        task.cancel()

    async def __aexit__(self, *error: object) -> None:
        self.log.append("closed")


def test_a_worker_that_cannot_start_closes_its_dependencies(empty_postgres_url: str, nats_url: str) -> None:
    shop = CanceledShop()

    async def main() -> None:
        async with open_agents(empty_postgres_url, model=caller("left"), bus=nats_url, deps=lambda: shop):
            raise AssertionError("opened")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert shop.log == ["open", "closed"]


def test_a_tool_service_has_its_own() -> None:
    model = caller("left")

    async def main() -> str:
        with connect("memory://") as store:
            async with open_agents(store, model=model) as agents:
                service = ToolService(agents.engine, agents.project, [left], deps=Shop("remote"))
                await service.register()
                await service.start()
                await agents.define("clerk", tools=["left"])
                said = (await agents.ask("clerk", "tea?")).text
                await service.stop()
                return said

    assert asyncio.run(main()) == "7 tea in remote"


async def canceled(context: Any) -> str:
    task = asyncio.ensure_future(asyncio.sleep(60))
    task.cancel()
    await task
    return ""


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        (lambda context: 7, "expected text"),
        (lambda context: 1 / 0, "ZeroDivisionError"),
        (lambda context: next(iter([])), "failed: StopIteration"),
        (canceled, "failed: CancelledError"),
    ],
)
def test_a_prompt_that_cannot_be_made_fails_the_turn(prompt: Prompt, said: str) -> None:
    async def main() -> str:
        async with open_agents("memory://", model=ScriptedModel(["never"])) as agents:
            await agents.define("clerk", prompt)
            return (await agents.ask("clerk", "tea?")).error or ""

    assert said in asyncio.run(main())


def test_a_worker_without_the_function_says_so() -> None:
    async def main() -> str:
        async with open_agents("memory://", model=ScriptedModel(["never"])) as agents:
            await agents.define("clerk", greeting)
            agents.toolbox.prompts.clear()
            return (await agents.ask("clerk", "tea?")).error or ""

    assert "does not have" in asyncio.run(main())


def test_outside_of_a_worker_the_tool_is_called_with_a_context() -> None:
    assert left(AgentContext(Shop()), "tea") == "7 tea in corner"
    with pytest.raises(InputError, match="pass one"):
        local_tool(left)(item="tea")
