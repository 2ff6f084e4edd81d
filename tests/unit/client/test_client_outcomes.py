"""What the client says of runs that do not end in time, or end badly."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from support.eventually import eventually

import afl
from afl.client.calls import Calls
from afl.client.outcome import RunCanceled
from afl.kernel.errors import InputError, NotFoundError, StoreUnavailable
from afl.operations.people.form_fields import FormError
from afl.operations.reason.why import why
from afl.turns import TurnRef

SOURCE = """
event facet Do(x: Int) => (y: Int)

workflow W(x: Int) => (y: Int) andThen {
    d = Do(x = $.x)
    yield W(y = d.y)
}
"""


def test_a_timeout_says_what_the_run_waits_for() -> None:
    with afl.connect("memory://") as flow, flow.worker():
        handle = flow.start(SOURCE, x=1)
        with pytest.raises(
            TimeoutError, match=r"after 1 seconds; it continues\. Why: no live server serves Do"
        ):
            handle.result(timeout=1)
        assert (
            str(handle.why()).splitlines()[-1]
            == "-> Start an agent for it: afl agent MODULE  [task-unserved]"
        )
        assert str(handle.why()).startswith(f"run {handle.id}: it waits for one step: d.\n  step ")


def test_an_asynchronous_timeout_says_it_too() -> None:
    async def story() -> None:
        async with afl.connect("memory://") as flow, flow.worker():
            with pytest.raises(TimeoutError, match=r"it continues\. Why: no live server serves Do"):
                await flow.run(SOURCE, x=1, timeout=1)

    asyncio.run(story())


def test_a_timeout_is_raised_where_the_reason_cannot_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with afl.connect("memory://") as flow:
        handle = flow.start(SOURCE, x=1)
        client = handle._calls._client
        real = client.call

        def call(function: object, *given: object, **named: object) -> object:
            if function is why:
                raise StoreUnavailable("the store is away")
            return real(function, *given, **named)

        monkeypatch.setattr(client, "call", call)
        assert isinstance(handle._calls, Calls)
        with pytest.raises(TimeoutError, match=r"it continues$"):
            handle.result(timeout=0.01)


def test_a_failed_run_names_the_type_of_the_exception() -> None:
    def do(x: int) -> dict[str, int]:
        return {"y": {}["amount"]}

    with (
        afl.connect("memory://") as flow,
        flow.worker({"Do": do}),
        pytest.raises(afl.RunFailed, match="failed: KeyError: 'amount'") as caught,
    ):
        flow.run(SOURCE, x=1, timeout=30)
    assert caught.value.error_type == "KeyError"


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"since": "2026-11-01"}, "since and until are datetimes with a zone, got '2026-11-01'"),
        ({"longer_than": 5}, "a span of time is a timedelta, got 5"),
    ],
)
def test_a_filter_of_the_wrong_type_is_told(named: dict[str, Any], message: str) -> None:
    with afl.connect("memory://") as flow, pytest.raises(InputError, match=message):
        flow.list(**named)


def test_a_timeout_is_a_number_of_seconds() -> None:
    timeout: Any = timedelta(seconds=5)
    with afl.connect("memory://") as flow:
        handle = flow.start(SOURCE, x=1)
        with pytest.raises(InputError, match=r"a timeout is a number of seconds, got datetime\.timedelta"):
            handle.result(timeout=timeout)


@pytest.mark.parametrize("named", [{"budget_usd": "2"}, {"budget_tokens": "2000"}])
def test_a_budget_that_is_a_text_is_told(named: dict[str, Any]) -> None:
    with (
        afl.connect("memory://") as flow,
        pytest.raises(InputError, match=r"^budget_\w+: Expected .*got `str`"),
    ):
        flow.start(SOURCE, x=1, **named)


def test_a_turn_that_is_no_id_is_told_its_type() -> None:
    turn: Any = TurnRef("project", "agent", "turn_1")
    with afl.connect("memory://") as flow, pytest.raises(InputError, match=r"^turn is a text, got TurnRef\("):
        flow.turns.result(turn)


def test_an_id_that_is_no_text_is_told_its_type() -> None:
    id: Any = UUID(int=7)
    with (
        afl.connect("memory://") as flow,
        pytest.raises(InputError, match=r"^id is a text, got UUID\('0000"),
    ):
        flow.start(SOURCE, x=1, id=id)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"tags": ["nightly"]}, r"tags is a mapping by name, such as \{'team': 'data'\}, got \['nightly'\]"),
        ({"inputs": [1]}, r"inputs is a mapping by name, .*, got \[1\]"),
        ({"name": 5}, r"the name of a run is a text, got 5; an input .* inputs=\{'name': ...\}"),
    ],
)
def test_an_option_of_the_wrong_type_is_told(named: dict[str, Any], message: str) -> None:
    with afl.connect("memory://") as flow:
        with pytest.raises(InputError, match=message):
            flow.start(SOURCE, x=1, **named)
        assert flow.list() == []


def test_errors_pass_between_processes() -> None:
    """A pool of processes pickles them; one that cannot be read again breaks the pool, or it waits for good."""

    def do(x: int) -> dict[str, int]:
        raise LookupError("not there")

    with afl.connect("memory://") as flow, flow.worker({"Do": do}):
        with pytest.raises(afl.RunFailed) as failed:
            flow.run(SOURCE, x=1, timeout=20)
        with pytest.raises(NotFoundError) as unknown:
            flow.get("nothing")
        with pytest.raises(afl.CompileError) as wrong:
            flow.start("workflow W( {")
    canceled = RunCanceled("run r of W was canceled", "r", "canceled by ada")
    raised = (failed.value, unknown.value, wrong.value, canceled, FormError("Ask: no", {"ok": "no"}))
    for error in raised:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again)) == (type(error), str(error))
        assert vars(again).keys() == vars(error).keys()
    again = pickle.loads(pickle.dumps(failed.value))
    assert again.error_type == "LookupError"
    assert "in do" in again.traceback
    assert pickle.loads(pickle.dumps(canceled)).reason == "canceled by ada"


def test_a_closed_client_says_so_to_whoever_waits_and_asks() -> None:
    async def story() -> None:
        async with afl.connect("memory://") as flow:
            handle = await flow.start(SOURCE, x=1)

            async def read() -> list[str]:
                return [event.kind async for event in handle.events()]

            waiting = [asyncio.create_task(handle.result()), asyncio.create_task(read())]
            while handle._calls._ends is None:
                await asyncio.sleep(0)
        for late in (*waiting, handle.result(), read(), handle.status(), flow.start(SOURCE, x=2)):
            with pytest.raises(InputError, match=r"the client is closed; use it inside the block"):
                await late
        with pytest.raises(InputError, match="the client is closed"):
            flow.worker()

    asyncio.run(story())


def test_a_closed_synchronous_client_says_so_to_whoever_waits_and_asks() -> None:
    with ThreadPoolExecutor(1) as threads:
        with afl.connect("memory://") as flow, flow.worker():
            handle = flow.start(SOURCE, x=1)
            waiting = threads.submit(handle.result)
            eventually(lambda: flow.list(state="waiting:agent"))
        asking: list[Callable[[], object]] = [waiting.result, handle.status, flow.list, flow.worker]
        for ask in asking:
            with pytest.raises(InputError, match="the client is closed; use it inside the block"):
                ask()


def test_a_wait_on_another_event_loop_is_refused() -> None:
    """Its future would be resolved by the loop of the first wait: without a timeout it would never return."""

    async def story() -> None:
        async with afl.connect("memory://") as flow, flow.worker({"Do": lambda x: {"y": x}}):
            assert await flow.run(SOURCE, x=1, timeout=20) == {"y": 1}
            handle = await flow.start(SOURCE, x=2)
            with pytest.raises(InputError, match=r"another event loop; .* `with afl\.connect"):
                await asyncio.to_thread(asyncio.run, handle.result(timeout=0.1))
            assert await handle.result(timeout=20) == {"y": 2}

    asyncio.run(story())
