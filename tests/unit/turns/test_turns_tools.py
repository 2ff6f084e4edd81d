"""Python functions as tools of a turn."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.models import tool_from
from afl.turns import tool
from afl.turns.tools.approval import ApprovalRule
from afl.turns.tools.local import LocalTool, Toolbox, ToolCall, ToolCaller, current_call, local_tool, near
from afl.turns.tools.outcome import Outcome

CALL = ToolCall("call_1", "tool", "project", "agent", "turn_1")


def called(used: LocalTool, arguments: dict[str, Any]) -> Outcome:
    async def work() -> Outcome:
        caller = ToolCaller(2)
        try:
            return await caller.call(used, CALL, arguments)
        finally:
            caller.close()

    return asyncio.run(work())


def double(n: int) -> int:
    """Twice a number."""
    return 2 * n


async def triple(n: int) -> int:
    return 3 * n


def key_and_thread() -> list[str]:
    return [current_call().idempotency_key, threading.current_thread().name]


async def key_in_the_loop() -> str:
    await asyncio.sleep(0)
    return current_call().idempotency_key


def bad() -> None:
    raise ValueError("no good")


def test_sync_and_async_functions() -> None:
    assert called(local_tool(double), {"n": 4}).result == 8
    assert called(local_tool(triple), {"n": 4}).result == 12
    assert called(local_tool(lambda: triple(5), name="lazy"), {}).result == 15


def test_the_call_is_known_to_the_function() -> None:
    key, thread = called(local_tool(key_and_thread), {}).result
    assert key == "project/call_1" and thread.startswith("afl-tool")
    assert called(local_tool(key_in_the_loop), {}).result == "project/call_1"


def test_there_is_no_call_outside_of_one() -> None:
    with pytest.raises(InputError, match="while a worker calls it"):
        current_call()


def test_arguments_that_do_not_fit_are_an_answer() -> None:
    outcome = called(local_tool(double), {"n": "four"})
    assert outcome.error is not None and outcome.error["code"] == "invalid_arguments"


def test_what_a_tool_raises_is_an_answer() -> None:
    outcome = called(local_tool(bad), {})
    assert outcome.status == "failed"
    assert outcome.error == {"code": "ValueError", "message": "no good"}


@pytest.mark.parametrize("kind", [StopIteration, StopAsyncIteration, GeneratorExit, SystemExit])
def test_what_ends_generators_and_threads_is_an_answer_too(kind: type[BaseException]) -> None:
    def ends() -> None:
        raise kind("no more")

    outcome = called(local_tool(ends, timeout=5), {})
    assert outcome.status == "failed"
    assert outcome.error == {"code": kind.__name__, "message": "no more"}


@pytest.mark.parametrize(
    "kind",
    [StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, asyncio.CancelledError, TimeoutError],
)
def test_what_a_coroutine_raises_is_an_answer(kind: type[BaseException]) -> None:
    async def ends() -> None:
        raise kind("no more")

    for each in (local_tool(ends, timeout=5), local_tool(lambda: ends(), name="lazy", timeout=5)):
        outcome = called(each, {})
        assert outcome.status == "failed"
        assert kind.__name__ in str(outcome.error) or kind in (StopIteration, StopAsyncIteration)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("there are no words")


def test_an_error_that_cannot_give_its_text_is_an_answer_with_its_name() -> None:
    def raising() -> None:
        raise Unspeakable

    async def raising_in_the_loop() -> None:
        raise Unspeakable

    for function in (raising, raising_in_the_loop):
        assert called(local_tool(function), {}).error == {"code": "Unspeakable", "message": "Unspeakable"}


def test_an_error_with_half_a_character_is_an_answer() -> None:
    def read() -> None:
        raise FileNotFoundError("no file caf\udce9")  # as Python has a name that is not UTF-8

    said = {"code": "FileNotFoundError", "message": "no file caf\\udce9"}
    assert called(local_tool(read), {}).error == said


def test_what_a_canceled_task_of_a_tool_raises_is_an_answer() -> None:
    async def waits() -> None:
        task = asyncio.ensure_future(asyncio.Event().wait())
        task.cancel()
        await task

    outcome = called(local_tool(waits), {})
    assert outcome.error == {"code": "CancelledError", "message": "CancelledError"}


def test_a_call_that_is_given_up_has_no_outcome() -> None:
    ended: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")

    async def work(used: LocalTool) -> None:
        caller = ToolCaller(2)
        call = asyncio.ensure_future(caller.call(used, CALL, {}))
        await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        caller.close()

    for used in (local_tool(endless), local_tool(lambda: endless(), name="lazy")):
        asyncio.run(work(used))
    assert ended == ["ended", "ended"]


def test_a_timeout_of_the_tool_itself_is_told_as_it_is() -> None:
    def slow() -> None:
        raise TimeoutError("the database did not answer")

    outcome = called(local_tool(slow), {})
    assert outcome.status == "failed"
    assert outcome.error == {"code": "TimeoutError", "message": "the database did not answer"}


def test_the_call_is_known_to_what_returns_a_coroutine() -> None:
    class Keys:
        async def __call__(self) -> str:
            return await key_in_the_loop()

    assert called(local_tool(Keys(), name="keys"), {}).result == "project/call_1"
    assert called(local_tool(lambda: key_in_the_loop(), name="lazy"), {}).result == "project/call_1"


def test_a_tool_has_its_time() -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    outcome = called(local_tool(endless, timeout=0.01), {})
    assert outcome.status == "timeout"


@pytest.mark.parametrize("wrong", [{"after_execution": "later"}, {"timeout": 0}])
def test_what_a_tool_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        local_tool(double, **wrong)


def test_a_coroutine_function_cannot_say_who_approves() -> None:
    async def group(given: Any) -> str:
        return "finance"

    with pytest.raises(InputError, match="a coroutine function; expected a plain one"):
        local_tool(double, approve=group)  # type: ignore[arg-type]


def test_names_in_a_box_are_unique() -> None:
    box = Toolbox([double, triple])
    assert box.add(double) is box.find("double")
    assert [tool.name for tool in box] == ["double", "triple"] and len(box) == 2
    with pytest.raises(InputError, match="two tools"):
        box.add(local_tool(triple, name="double"))


def test_a_near_name() -> None:
    assert near("dubble", ["double", "x"]) == "did you mean double?"
    assert near("dubble", []) == "known are: none"


def test_options_of_a_tool_are_changed_in_a_copy() -> None:
    first = tool(double, timeout=5, approve="finance", approve_timeout=60)
    assert tool(first) is first
    second = tool(first, approve="board")
    assert (second.timeout, second.approval) == (5, ApprovalRule("board", 60))
    assert first.approval == ApprovalRule("finance", 60)
    assert tool(first, approve=False).approval is None
    assert tool(first, timeout=7).approval == first.approval
    renamed = tool(first, name="twice")
    assert (renamed.name, renamed.tool.description, renamed(4)) == ("twice", "Twice a number.", 8)
    assert first.name == "double"


def test_the_decorator_changes_a_tool_too() -> None:
    assert tool(approve="finance")(tool(double)).approval == ApprovalRule("finance")


def test_a_python_tool_can_be_renamed() -> None:
    assert tool(tool_from(double), name="twice").name == "twice"


@pytest.mark.parametrize("name", ["recall", "remember", "remember_for_all", "submit_result", "fork_join"])
def test_no_tool_is_named_like_a_built_in(name: str) -> None:
    with pytest.raises(InputError, match=rf"tool '{name}': .* built-in .*name=\"\.\.\."):
        tool(double, name=name)
    with pytest.raises(InputError, match="built-in"):
        tool(workflow=f"shop.{name}")


@pytest.mark.parametrize("name", ["a b", "größe", "x" * 65, "a.b", "<lambda>"])
def test_a_name_that_providers_refuse_is_told(name: str) -> None:
    with pytest.raises(InputError, match=r"tool '.*': .*up to 64 letters, digits.*name=\"\.\.\."):
        tool(double, name=name)


class Doubler:
    """Doubles."""

    def __call__(self, n: int) -> int:
        return 2 * n


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (5, "5 is not a tool; expected a function"),
        ("double", "'double' is not a tool; expected a function"),
        (partial(double, n=1), "partial.* write a function that calls it"),
        (Doubler(), r"Doubler.* has no name; give it one: .*name=\"\.\.\."),
        (max, "max.*parameters.* write a function that calls it"),
        (lambda n: n, "'<lambda>'"),
    ],
)
def test_what_is_no_function_is_told(given: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        local_tool(given)


def test_an_object_that_can_be_called_is_a_tool_with_a_name() -> None:
    assert called(local_tool(Doubler(), name="doubler"), {"n": 2}).result == 4


def test_agents_have_options_of_their_own_for_one_function() -> None:
    box = Toolbox()
    plain, asks = tool(double), tool(double, approve="finance")
    box.set_tools("boss", [plain])
    box.set_tools("clerk", [asks])
    assert (box.find("double", "boss"), box.find("double", "clerk")) == (plain, asks)
    assert box.find("double", "other") == asks  # which only names it: a rule is kept
    extended = box.with_tools([tool(triple)])
    assert extended.find("double", "boss") == plain and extended.find("triple", "boss") is not None
    box.set_tools("boss", [asks])
    assert box.find("double", "boss") == asks


def test_one_agent_has_one_tool_of_a_name() -> None:
    box = Toolbox()
    box.set_tools("clerk", [tool(double), tool(double)])
    with pytest.raises(InputError, match=r"agent clerk: two tools have the name 'double'.*name="):
        box.set_tools("clerk", [tool(double), tool(double, approve="finance")])


def test_the_time_of_a_call_begins_when_it_has_a_thread() -> None:
    def brief() -> str:
        time.sleep(0.1)
        return "done"

    async def work() -> list[Outcome]:
        caller = ToolCaller(1)
        try:
            waiting = (caller.call(local_tool(brief, timeout=0.3), CALL, {}) for _ in range(6))
            return list(await asyncio.gather(*waiting))
        finally:
            caller.close()

    assert [outcome.result for outcome in asyncio.run(work())] == ["done"] * 6


def test_calls_that_wait_for_hanging_ones_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    release = threading.Event()

    def hang() -> None:
        release.wait(10)

    async def work() -> list[Any]:
        caller = ToolCaller(1)
        try:
            late = await caller.call(local_tool(hang, timeout=0.01), CALL, {})
            waiting = [asyncio.create_task(caller.call(local_tool(double), CALL, {"n": 1})) for _ in range(2)]
            await asyncio.sleep(0.05)
            assert not any(each.done() for each in waiting)
            release.set()
            return [late.status, *(outcome.result for outcome in await asyncio.gather(*waiting))]
        finally:
            release.set()
            caller.close()

    with caplog.at_level("WARNING", "afl.turns"):
        assert asyncio.run(work()) == ["timeout", 2, 2]
    (said,) = [record.getMessage() for record in caplog.records]
    assert "1 of 1 threads" in said and "hang" in said


def test_a_canceled_call_that_has_no_thread_yet_is_not_made() -> None:
    release, made = threading.Event(), list[int]()

    async def work() -> None:
        caller = ToolCaller(1)
        try:
            first = asyncio.create_task(caller.call(local_tool(lambda: release.wait(10), name="a"), CALL, {}))
            await asyncio.sleep(0.05)
            second = asyncio.create_task(caller.call(local_tool(lambda: made.append(1), name="b"), CALL, {}))
            await asyncio.sleep(0.05)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            release.set()
            await first
        finally:
            release.set()
            caller.close()

    asyncio.run(work())
    assert made == []


def test_a_call_without_a_thread_ends_with_its_caller() -> None:
    release = threading.Event()

    async def work() -> None:
        caller = ToolCaller(1)
        try:
            first = asyncio.create_task(caller.call(local_tool(lambda: release.wait(10), name="a"), CALL, {}))
            await asyncio.sleep(0.05)
            second = asyncio.create_task(caller.call(local_tool(double), CALL, {"n": 1}))
            await asyncio.sleep(0.05)
            caller.close()
            async with asyncio.timeout(5):
                with pytest.raises(asyncio.CancelledError):
                    await second
            release.set()
            await first
        finally:
            release.set()

    asyncio.run(work())
