"""What every circuit breaker promises, with its state in this process or in Redis."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, NoReturn

import pytest
from support.circuits import Circuit, circuit
from support.eventually import PATIENCE_SECONDS

from afl.coordination.breaker_config import CircuitBreakerState
from afl.coordination.circuit_breaker import CircuitBreaker
from afl.coordination.errors import BreakerInputError, CircuitBreakerOpenError

Make = Callable[..., AbstractAsyncContextManager[Circuit]]
CLOSED, OPEN, HALF_OPEN = CircuitBreakerState.CLOSED, CircuitBreakerState.OPEN, CircuitBreakerState.HALF_OPEN


@pytest.fixture(params=["memory", "redis"])
def make(request: pytest.FixtureRequest) -> Make:
    def url() -> str:
        found: str = request.getfixturevalue("redis_url")
        return found

    return lambda **options: circuit(request.param, url, **options)


async def fine(value: Any = "fine") -> Any:
    return value


async def broken() -> NoReturn:
    raise ConnectionError("it broke")


async def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        with pytest.raises(ConnectionError):
            await breaker.call(broken)


async def is_refused(breaker: CircuitBreaker) -> str:
    with pytest.raises(CircuitBreakerOpenError) as caught:
        await breaker.call(fine)
    return str(caught.value)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_a_new_circuit_is_closed_and_passes_arguments_on(make: Make) -> None:
    async def scene() -> None:
        async with make() as here:
            breaker = here.breaker()

            async def both(first: int, *, second: int) -> tuple[int, int]:
                return first, second

            assert await breaker.call(both, 1, second=2) == (1, 2)
            assert await breaker.call(lambda value: value + 1, 1) == 2, "a plain function"
            assert await breaker.call(lambda: fine(3)) == 3, "a function that gives an awaitable"
            assert await breaker.call(fine, "kept", correlation_id="c-1") == "kept"
            assert await breaker.get_state() is CLOSED
            assert await breaker.is_call_permitted()

    run(scene())


def test_a_plain_function_that_stops_an_iteration_has_failed(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1) as here:
            breaker = here.breaker()
            async with asyncio.timeout(PATIENCE_SECONDS):
                with pytest.raises(RuntimeError, match="StopIteration"):
                    await breaker.call(next, iter(()))
            assert await breaker.get_state() is OPEN

    run(scene())


def test_failures_in_a_row_open_it_and_a_success_sets_them_back(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=3) as here:
            breaker = here.breaker()
            await fail(breaker, 2)
            await breaker.call(fine)
            await fail(breaker, 2)
            assert await breaker.get_state() is CLOSED
            await fail(breaker)
            assert await breaker.get_state() is OPEN
            assert not await breaker.is_call_permitted()
            assert "Circuit breaker service is OPEN" in await is_refused(breaker)

    run(scene())


def test_the_error_says_when_to_come_again(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1, timeout_seconds=60) as here:
            breaker = here.breaker()
            await fail(breaker)
            with pytest.raises(CircuitBreakerOpenError, match="again in") as caught:
                await breaker.call(fine, correlation_id="c-7")
            assert caught.value.correlation_id == "c-7"
            assert caught.value.retry_after is not None and 0 < caught.value.retry_after <= 60

    run(scene())


def test_time_makes_it_half_open_and_successes_close_it(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1, timeout_seconds=10, success_threshold=2) as here:
            breaker = here.breaker()
            await fail(breaker)
            await here.pass_time(9)
            assert await breaker.get_state() is OPEN
            await here.pass_time(1)
            assert await breaker.get_state() is HALF_OPEN, "the state a call would find"
            assert await breaker.is_call_permitted()
            await breaker.call(fine)
            assert await breaker.get_state() is HALF_OPEN
            await breaker.call(fine)
            assert await breaker.get_state() is CLOSED
            assert (await breaker.get_metrics())["failure_count"] == 0

    run(scene())


def test_one_failure_while_half_open_opens_it_and_the_time_begins_again(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1, timeout_seconds=10) as here:
            breaker = here.breaker()
            await fail(breaker)
            await here.pass_time(10)
            await breaker.call(fine)
            await fail(breaker)
            assert await breaker.get_state() is OPEN
            await here.pass_time(9)
            assert await breaker.get_state() is OPEN
            await here.pass_time(1)
            assert await breaker.get_state() is HALF_OPEN

    run(scene())


class Held:
    """Calls that are under way until they are let go."""

    def __init__(self) -> None:
        self.begun = 0
        self._go = asyncio.Event()
        self._changed = asyncio.Condition()

    async def __call__(self) -> str:
        async with self._changed:
            self.begun += 1
            self._changed.notify_all()
        await self._go.wait()
        return "held"

    async def until(self, count: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self.begun >= count)

    def let_go(self) -> None:
        self._go.set()


async def half_open(here: Circuit) -> CircuitBreaker:
    breaker = here.breaker()
    await fail(breaker, here.config.failure_threshold)
    await here.pass_time(here.config.timeout_seconds)
    return breaker


def test_a_half_open_circuit_lets_only_so_many_calls_through(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1, timeout_seconds=10, half_open_max_calls=2, success_threshold=2
        ) as here:
            breaker, held = await half_open(here), Held()
            calls = [asyncio.create_task(breaker.call(held)) for _ in range(2)]
            await held.until(2)
            assert not await breaker.is_call_permitted()
            assert "HALF_OPEN with max calls reached" in await is_refused(here.breaker())
            held.let_go()
            assert await asyncio.gather(*calls) == ["held", "held"]
            assert await breaker.get_state() is CLOSED

    run(scene())


def test_a_canceled_half_open_call_gives_its_place_back(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1, timeout_seconds=10, half_open_max_calls=1, success_threshold=1
        ) as here:
            breaker, held = await half_open(here), Held()
            for _ in range(3):
                call = asyncio.create_task(breaker.call(held))
                await held.until(1)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                held.begun = 0
            assert await breaker.get_state() is HALF_OPEN, "a cancellation is neither failure nor success"
            await breaker.call(fine)
            assert await breaker.get_state() is CLOSED

    run(scene())


def test_a_half_open_call_that_vanished_gives_its_place_back_when_its_lease_ends(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1,
            timeout_seconds=10,
            half_open_max_calls=1,
            success_threshold=1,
            slot_lease_seconds=30,
        ) as here:
            breaker, held = await half_open(here), Held()
            lost = asyncio.create_task(breaker.call(held))
            await held.until(1)
            await here.pass_time(29)
            assert not await breaker.is_call_permitted()
            await here.pass_time(1)
            assert await breaker.is_call_permitted()
            other = asyncio.create_task(breaker.call(held))
            await held.until(2)
            held.let_go()
            assert await lost == "held"
            await other
            assert await breaker.get_state() is CLOSED, "by the other one"
            assert (await breaker.get_metrics())["successful_calls"] == 2

    run(scene())


def test_what_a_lost_place_comes_to_moves_nothing(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1,
            timeout_seconds=10,
            half_open_max_calls=1,
            success_threshold=1,
            slot_lease_seconds=30,
        ) as here:
            breaker, held = await half_open(here), Held()
            lost = asyncio.create_task(breaker.call(held))
            await held.until(1)
            await here.pass_time(30)
            held.let_go()
            await lost
            assert await breaker.get_state() is HALF_OPEN

    run(scene())


def test_an_episode_that_does_not_decide_ends_and_another_begins(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1, timeout_seconds=10, recovery_timeout_seconds=100, slot_lease_seconds=1000
        ) as here:
            breaker = await half_open(here)
            await breaker.call(fine)
            await here.pass_time(99)
            assert await breaker.get_state() is HALF_OPEN
            await here.pass_time(1)
            assert await breaker.get_state() is OPEN, "undecided for recovery_timeout_seconds"
            await here.pass_time(10)
            assert await breaker.get_state() is HALF_OPEN
            await breaker.call(fine)
            assert await breaker.get_state() is HALF_OPEN, "successes of the other episode do not count"

    run(scene())


def test_no_lease_outlives_its_episode(make: Make) -> None:
    async def scene() -> None:
        async with make(
            failure_threshold=1,
            timeout_seconds=10,
            recovery_timeout_seconds=20,
            half_open_max_calls=1,
            success_threshold=1,
            slot_lease_seconds=1000,
        ) as here:
            breaker, held = await half_open(here), Held()
            lost = asyncio.create_task(breaker.call(held))
            await held.until(1)
            await here.pass_time(20 + 10)
            assert await breaker.call(fine) == "fine"
            assert await breaker.get_state() is CLOSED
            held.let_go()
            await lost

    run(scene())


def test_a_call_from_before_the_change_moves_nothing(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1, timeout_seconds=10, success_threshold=1) as here:
            breaker, gate = here.breaker(), asyncio.Event()

            async def slow() -> None:
                await gate.wait()
                raise ConnectionError("late")

            late = asyncio.create_task(breaker.call(slow))
            while (await breaker.get_metrics())["total_calls"] < 1:
                await asyncio.sleep(0)
            await fail(breaker)
            await here.pass_time(10)
            await breaker.call(fine)
            assert await breaker.get_state() is CLOSED
            gate.set()
            with pytest.raises(ConnectionError, match="late"):
                await late
            assert await breaker.get_state() is CLOSED
            assert (await breaker.get_metrics())["failed_calls"] == 2, "but it is counted"

    run(scene())


def test_a_window_counts_what_failed_within_it(make: Make) -> None:
    async def scene() -> None:
        async with make(mode="window", failure_threshold=3, window_seconds=20, failure_rate=0) as here:
            breaker = here.breaker()
            await fail(breaker, 2)
            await breaker.call(fine)
            assert (await breaker.get_metrics())["failure_count"] == 2, "a success does not set them back"
            await here.pass_time(21)
            await fail(breaker, 2)
            assert await breaker.get_state() is CLOSED, "the first two are too long ago"
            await fail(breaker)
            assert await breaker.get_state() is OPEN

    run(scene())


def test_a_window_asks_for_a_share_of_failures(make: Make) -> None:
    async def scene() -> None:
        async with make(mode="window", failure_threshold=2, window_seconds=3600, failure_rate=0.5) as here:
            breaker = here.breaker()
            for _ in range(5):
                await breaker.call(fine)
            await fail(breaker, 4)
            assert await breaker.get_state() is CLOSED, "4 of 9"
            await fail(breaker)
            assert await breaker.get_state() is OPEN, "5 of 10"

    run(scene())


def test_forced_open_it_stays_open_until_somebody_closes_it(make: Make) -> None:
    async def scene() -> None:
        async with make(timeout_seconds=10) as here:
            breaker = here.breaker()
            await breaker.force_open()
            await here.pass_time(1000)
            assert "it was forced open" in await is_refused(breaker)
            assert (await breaker.get_metrics())["forced"]
            await breaker.force_close()
            assert await breaker.call(fine) == "fine"
            await fail(breaker, 5)
            assert await breaker.get_state() is OPEN, "from then on it works as always"

    run(scene())


def test_reset_forgets_what_was_counted_even_when_closed(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=3) as here:
            breaker = here.breaker()
            await fail(breaker, 2)
            await breaker.reset()
            await fail(breaker, 2)
            assert await breaker.get_state() is CLOSED
            assert (await breaker.get_metrics())["total_calls"] == 2
            await fail(breaker)
            await breaker.reset()
            assert await breaker.get_state() is CLOSED
            assert (await breaker.get_metrics())["state_changes"] == 0

    run(scene())


def test_metrics_count_everything(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=2) as here:
            breaker = here.breaker()
            await breaker.call(fine)
            await fail(breaker, 2)
            await is_refused(breaker)
            found = await breaker.get_metrics()
            assert (found["name"], found["state"], found["state_changes"]) == ("service", "open", 1)
            counts = ("total_calls", "successful_calls", "failed_calls", "rejected_calls")
            assert [found[name] for name in counts] == [4, 1, 2, 1]
            assert found["last_failure_time"] >= found["last_success_time"] > 0
            assert found["state_changed_at"] is not None
            assert found["config"]["failure_threshold"] == 2

    run(scene())


def test_a_decorated_function_and_its_fallback(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1) as here:
            breaker = here.breaker()

            @breaker.protect(fallback=lambda city: f"yesterday's weather of {city}")
            async def weather(city: str) -> str:
                """The weather."""
                raise ConnectionError(city)

            @breaker
            def plain() -> str:
                return "plain"

            assert (weather.__name__, weather.__doc__) == ("weather", "The weather.")
            assert await plain() == "plain"
            with pytest.raises(ConnectionError):
                await weather("Rome")
            assert await weather("Rome") == "yesterday's weather of Rome"
            with pytest.raises(CircuitBreakerOpenError):
                await plain()

    run(scene())


def test_a_fallback_of_the_breaker_answers_for_every_call(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1) as here:
            breaker = here.breaker(fallback=fine)
            await fail(breaker)
            assert await breaker.call(broken) == "fine"

    run(scene())


def test_ignored_errors_are_the_answer_of_a_service_that_works(make: Make) -> None:
    async def scene() -> None:
        async with make(failure_threshold=1) as here:
            breaker = here.breaker(ignored=(KeyError,))

            async def missing() -> NoReturn:
                raise KeyError("no such row")

            with pytest.raises(KeyError):
                await breaker.call(missing)
            assert await breaker.get_state() is CLOSED
            assert (await breaker.get_metrics())["successful_calls"] == 1

    run(scene())


def test_two_objects_of_one_name_share_their_state(redis_url: str) -> None:
    async def scene() -> None:
        async with circuit("redis", lambda: redis_url, failure_threshold=2, timeout_seconds=10) as here:
            first, second = here.breaker(), here.breaker()
            await fail(first)
            await fail(second)
            assert await first.get_state() is OPEN
            await is_refused(second)
            await here.pass_time(10)
            await first.call(fine)
            await second.call(fine)
            assert await first.get_state() is CLOSED

    run(scene())


def test_a_breaker_without_a_name_is_refused() -> None:
    with pytest.raises(BreakerInputError, match="the name of a circuit breaker"):
        CircuitBreaker(None, "")
