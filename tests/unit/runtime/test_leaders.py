"""The lead of a worker: whoever gets a job does it on the spot, and another thread leads on."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from support.agents import SECONDS

from afl.runtime.worker.leaders import Leaders
from afl.runtime.worker.thread_pool import ThreadPool


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool("led")
    yield pool
    pool.shutdown()


def test_a_job_begins_on_the_thread_that_got_it_and_the_lead_goes_on_elsewhere(pool: ThreadPool) -> None:
    got: list[threading.Thread] = []
    did: list[threading.Thread] = []
    led_on = threading.Event()

    def job() -> None:
        did.append(threading.current_thread())
        assert led_on.wait(SECONDS), "nobody leads while the job lasts"

    def turn() -> object:
        got.append(threading.current_thread())
        if len(got) == 1:
            return job
        led_on.set()
        return None

    Leaders(lambda: pool, lambda: len(got) < 3, turn).run()  # type: ignore[arg-type]
    assert did == got[:1]
    assert got[1] is got[2], "without a job the lead stays where it is"
    assert got[1] is not got[0]
    assert threading.current_thread() not in got


def test_a_job_that_fails_ends_nothing(pool: ThreadPool, caplog: pytest.LogCaptureFixture) -> None:
    turns: list[int] = []

    def job() -> None:
        raise OSError("no space")

    def turn() -> object:
        turns.append(1)
        return job if len(turns) == 1 else None

    Leaders(lambda: pool, lambda: len(turns) < 3, turn).run()  # type: ignore[arg-type]
    pool.shutdown()
    assert len(turns) == 3
    assert "no space" in caplog.text


def test_what_a_turn_raises_is_raised_by_run(pool: ThreadPool) -> None:
    def turn() -> None:
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        Leaders(lambda: pool, lambda: True, turn).run()


def test_without_anything_to_do_it_ends_at_once(pool: ThreadPool) -> None:
    Leaders(lambda: pool, lambda: False, lambda: pytest.fail("there was a turn")).run()
