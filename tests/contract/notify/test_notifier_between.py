"""What every notifier promises between processes, with real ones, and across the loss of its server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from notifier_house import PROGRAM, SECONDS, House, opened, receive, tell

from afl.devstack import temporary_stack
from afl.kernel.database import Query

crossing = pytest.mark.parametrize("house", ["sqlite", "postgres", "nats"], indirect=True)


@crossing
def test_another_process_is_heard(house: House, topic: str) -> None:
    with house.neighbour() as neighbour, house.notifier.listen([topic]) as subscription:
        assert tell(neighbour, f"ring {topic}") == "notified"
        assert receive(subscription, topic)


@crossing
def test_a_process_that_rings_and_ends_at_once_is_heard(house: House, topic: str) -> None:
    with house.notifier.listen([topic]) as subscription:
        subprocess.run([sys.executable, str(PROGRAM), house.store, house.doorbell, topic], check=True)
        assert receive(subscription, topic)


@crossing
def test_no_ring_is_lost_between_two_processes(house: House, topic: str) -> None:
    count = Query.of("select count(*) as n from touched where topic = :topic", name="count")
    question, reply = f"{topic}:question", f"{topic}:reply"
    with house.neighbour() as neighbour, house.notifier.listen([reply]) as subscription:
        assert tell(neighbour, f"echo {question} {reply}") == "listening"
        for asked in range(1, 51):
            house.notify(question)
            while house.database.select(count, topic=reply)[0]["n"] < asked:
                assert subscription.wait(SECONDS), (
                    f"reply {asked} was committed, or never will be, without a notification"
                )
    assert house.database.select(count, topic=reply)[0]["n"] == 50


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_hears_and_rings_and_leaves_the_parent_whole(house: House, topic: str) -> None:
    def in_child() -> None:
        with house.notifier.listen([f"{topic}:child"]) as subscription:
            house.notify(f"{topic}:child")
            assert receive(subscription, f"{topic}:child")
        house.notify(topic)
        house.notifier.close()

    with house.notifier.listen([topic]) as subscription:
        assert forked(in_child) == 0
        if not house.notifier.crosses_processes:
            return
        assert receive(subscription, topic)
        house.notifier.notify(topic)
        assert receive(subscription, topic), "the parent's wire has survived its child"
        with house.neighbour() as neighbour:
            assert tell(neighbour, f"ring {topic}") == "notified"
            assert receive(subscription, topic)


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
        with opened(store, doorbell) as house, house.notifier.listen([topic]) as subscription:
            stack.down()
            house.notifier.notify("while-away")  # neither fails nor waits
            assert stack.up([service])[service] == url
            assert subscription.wait(SECONDS) == {topic}, "something may have been notified meanwhile"
            with house.neighbour() as neighbour:
                assert tell(neighbour, f"ring {topic}") == "notified"
                assert receive(subscription, topic)
