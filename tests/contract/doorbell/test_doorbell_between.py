"""What every doorbell promises between processes, with real ones, and across the loss of its server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from doorbell_house import PROGRAM, SECONDS, House, hear, opened, tell

from afl.devstack import temporary_stack
from afl.kernel.database import Query

crossing = pytest.mark.parametrize("house", ["sqlite", "postgres", "nats"], indirect=True)


@crossing
def test_another_process_is_heard(house: House, topic: str) -> None:
    with house.neighbour() as neighbour, house.bell.listen([topic]) as ear:
        assert tell(neighbour, f"ring {topic}") == "rung"
        assert hear(ear, topic)


@crossing
def test_a_process_that_rings_and_ends_at_once_is_heard(house: House, topic: str) -> None:
    with house.bell.listen([topic]) as ear:
        subprocess.run([sys.executable, str(PROGRAM), house.store, house.doorbell, topic], check=True)
        assert hear(ear, topic)


@crossing
def test_no_ring_is_lost_between_two_processes(house: House, topic: str) -> None:
    count = Query.of("select count(*) as n from touched where topic = :topic", name="count")
    question, reply = f"{topic}:question", f"{topic}:reply"
    with house.neighbour() as neighbour, house.bell.listen([reply]) as ear:
        assert tell(neighbour, f"echo {question} {reply}") == "listening"
        for asked in range(1, 51):
            house.ring(question)
            while house.database.select(count, topic=reply)[0]["n"] < asked:
                assert ear.wait(SECONDS), f"reply {asked} was committed, or never will be, without a ring"
    assert house.database.select(count, topic=reply)[0]["n"] == 50


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_hears_and_rings_and_leaves_the_parent_whole(house: House, topic: str) -> None:
    def in_child() -> None:
        with house.bell.listen([f"{topic}:child"]) as ear:
            house.ring(f"{topic}:child")
            assert hear(ear, f"{topic}:child")
        house.ring(topic)
        house.bell.close()

    with house.bell.listen([topic]) as ear:
        assert forked(in_child) == 0
        if not house.bell.crosses_processes:
            return
        assert hear(ear, topic)
        house.bell.ring(topic)
        assert hear(ear, topic), "the parent's wire has survived its child"
        with house.neighbour() as neighbour:
            assert tell(neighbour, f"ring {topic}") == "rung"
            assert hear(ear, topic)


def forked(work: Callable[[], object]) -> int:
    """The exit status of a child that does the work."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    status = 1
    try:
        work()
        status = 0
    finally:
        os._exit(status)


@pytest.mark.parametrize("service", ["postgres", "nats"])
def test_after_a_restart_of_the_server_everyone_looks_and_rings_pass(
    service: str, tmp_path: Path, topic: str
) -> None:
    with temporary_stack() as stack:
        url = stack.up([service])[service]
        store = url if service == "postgres" else f"sqlite:///{tmp_path}/afl.db"
        doorbell = "auto" if service == "postgres" else url
        with opened(store, doorbell) as house, house.bell.listen([topic]) as ear:
            stack.down()
            house.bell.ring("while-away")  # neither fails nor waits
            assert stack.up([service])[service] == url
            assert ear.wait(SECONDS) == {topic}, "something may have been rung meanwhile"
            with house.neighbour() as neighbour:
                assert tell(neighbour, f"ring {topic}") == "rung"
                assert hear(ear, topic)
