"""Threads for handlers: reused when idle, as many as are needed, and never in the way of the end."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from afl.runtime.thread_pool import ThreadPool


def fail() -> None:
    raise ValueError("no")


def test_a_job_answers_or_fails() -> None:
    with ThreadPool("p") as pool:
        assert pool.submit(divmod, 7, 3).result() == (2, 1)
        assert pool.submit(int, "ff", base=16).result() == 255
        with pytest.raises(ValueError, match="no"):
            pool.submit(fail).result()
        assert pool.submit(len, "x").result() == 1


def test_even_what_would_end_a_thread_only_fails_the_job() -> None:
    with ThreadPool("p") as pool:
        with pytest.raises(SystemExit):
            pool.submit(sys.exit, 3).result()
        assert pool.submit(len, "x").result() == 1


def test_jobs_run_at_the_same_time_each_on_a_thread() -> None:
    together = threading.Barrier(5)

    def meet() -> str:
        together.wait(60)
        return threading.current_thread().name

    with ThreadPool("crew") as pool:
        names = sorted(future.result() for future in [pool.submit(meet) for _ in range(5)])
    assert names == [f"crew-{number}" for number in range(1, 6)]


def test_an_idle_thread_takes_the_next_job() -> None:
    pool, ready = ThreadPool("p"), threading.Semaphore(0)

    def name() -> str:
        return threading.current_thread().name

    seen = {pool.submit(name).result() for _ in range(1)}
    # The thread is idle only after the answer is there: wait until it says so.
    while pool._idle == 0:
        ready.acquire(timeout=0.001)
    seen |= {pool.submit(name).result()}
    assert seen == {"p-1"}
    pool.shutdown()


def test_a_cancelled_job_is_not_run() -> None:
    gate = threading.Event()
    ran: list[int] = []
    pool = ThreadPool("p")
    first = pool.submit(gate.wait)
    second = pool.submit(ran.append, 1)
    second.cancel()
    gate.set()
    assert first.result()
    pool.shutdown()
    assert second.cancelled() or ran == [1]
    assert not (second.cancelled() and ran)


def test_a_closed_pool_takes_no_jobs_and_its_threads_end() -> None:
    pool = ThreadPool("closing")
    assert pool.submit(len, "x").result() == 1
    pool.shutdown()
    with pytest.raises(RuntimeError, match="the pool is closed"):
        pool.submit(len, "x")
    assert [thread for thread in threading.enumerate() if thread.name.startswith("closing")] == []
    pool.shutdown()


def test_closing_without_waiting_returns_at_once() -> None:
    gate = threading.Event()
    pool = ThreadPool("p")
    job = pool.submit(gate.wait)
    pool.shutdown(wait=False)
    assert not job.done()
    gate.set()
    assert job.result()


def test_a_job_that_never_returns_does_not_keep_the_process_alive() -> None:
    code = """
import threading
from afl.runtime.thread_pool import ThreadPool
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
ThreadPool("p").submit(hang)
begun.wait()
print("over")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "over\n"
