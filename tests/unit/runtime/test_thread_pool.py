"""Threads for handlers: reused when idle, as many as are needed, and never in the way of the end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from queue import Queue

import pytest
from support.agents import SECONDS
from support.eventually import eventually

from afl.kernel.thread_pool import ThreadPool


class Noting:
    """A pool whose jobs note on which thread they ran."""

    def __init__(self, name: str = "p") -> None:
        self.pool = ThreadPool(name)
        self.names: Queue[str] = Queue()

    def run(self, job: Callable[[], object] = lambda: None) -> None:
        def noted() -> None:
            job()
            self.names.put(threading.current_thread().name)

        self.pool.run(noted)

    def name(self) -> str:
        """Where the next of the jobs that ended ran."""
        return self.names.get(timeout=SECONDS)

    def until_on(self, name: str) -> None:
        """Run jobs until one gets this thread. The others keep theirs meanwhile: no other thread becomes idle."""
        found = threading.Event()

        def keep() -> None:
            self.names.put(threading.current_thread().name)
            found.wait()

        def gets_it() -> bool:
            self.pool.run(keep)
            return self.name() == name

        try:
            eventually(gets_it)
        finally:
            found.set()


@pytest.mark.parametrize("raised", [ValueError("no"), SystemExit(3)], ids=["an error", "what ends a thread"])
def test_a_job_that_fails_is_told_of_and_leaves_its_thread_to_others(
    raised: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    noting = Noting()

    def fail() -> None:
        raise raised

    noting.pool.run(fail)
    noting.until_on("p-1")
    noting.pool.shutdown()
    assert "a job of p failed" in caplog.text


def test_jobs_run_at_the_same_time_each_on_a_thread() -> None:
    together, noting = threading.Barrier(5), Noting("crew")
    for _ in range(5):
        noting.run(lambda: together.wait(SECONDS))
    assert sorted(noting.name() for _ in range(5)) == [f"crew-{number}" for number in range(1, 6)]
    noting.pool.shutdown()


def test_an_idle_thread_takes_the_next_job() -> None:
    noting = Noting()
    noting.run()
    assert noting.name() == "p-1"
    for _ in range(2):
        noting.until_on("p-1")
    noting.pool.shutdown()


def test_a_closed_pool_takes_no_jobs_and_its_threads_end() -> None:
    noting = Noting("closing")
    noting.run()
    assert noting.name() == "closing-1"
    noting.pool.shutdown()
    with pytest.raises(RuntimeError, match="the pool is closed"):
        noting.run()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("closing")] == []
    noting.pool.shutdown()


def test_closing_without_waiting_returns_at_once_and_what_has_begun_ends() -> None:
    gate, noting = threading.Event(), Noting()
    noting.run(gate.wait)
    noting.pool.shutdown(wait=False)
    assert noting.names.empty()
    gate.set()
    assert noting.name() == "p-1"


def test_a_job_that_never_returns_does_not_keep_the_process_alive() -> None:
    code = """
import threading
from afl.kernel.thread_pool import ThreadPool
begun = threading.Event()
def hang():
    begun.set()
    threading.Event().wait()
ThreadPool("p").run(hang)
begun.wait()
print("over")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "over\n"
