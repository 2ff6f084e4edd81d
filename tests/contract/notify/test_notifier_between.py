"""What every notifier promises between processes, with real ones, and across the loss of its server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from notifier_fixture import PROGRAM, SECONDS, Served, opened, receive, tell

from afl.devstack import temporary_stack
from afl.kernel.database import Query
from afl.kernel.notify import open_notifier

crossing = pytest.mark.parametrize("served", ["sqlite", "postgres", "nats"], indirect=True)


@crossing
def test_a_notification_of_another_process_arrives(served: Served, topic: str) -> None:
    with served.neighbor() as neighbor, served.notifier.subscribe([topic]) as subscription:
        assert tell(neighbor, f"notify {topic}") == "notified"
        assert receive(subscription, topic)


@crossing
def test_a_notification_of_a_process_that_ends_at_once_arrives(served: Served, topic: str) -> None:
    with served.notifier.subscribe([topic]) as subscription:
        subprocess.run([sys.executable, str(PROGRAM), served.store, served.doorbell, topic], check=True)
        assert receive(subscription, topic)


@crossing
def test_no_notification_is_lost_between_two_processes(served: Served, topic: str) -> None:
    count = Query.of("select count(*) as n from touched where topic = :topic", name="count")
    question, reply = f"{topic}:question", f"{topic}:reply"
    with served.neighbor() as neighbor, served.notifier.subscribe([reply]) as subscription:
        assert tell(neighbor, f"echo {question} {reply}") == "listening"
        for asked in range(1, 51):
            served.notify(question)
            while served.database.select(count, topic=reply)[0]["n"] < asked:
                assert subscription.wait(SECONDS), (
                    f"reply {asked} was committed, or never will be, without a notification"
                )
    assert served.database.select(count, topic=reply)[0]["n"] == 50


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_subscribes_and_notifies_and_leaves_the_parent_intact(
    served: Served, topic: str
) -> None:
    def in_child() -> None:
        with served.notifier.subscribe([f"{topic}:child"]) as subscription:
            served.notify(f"{topic}:child")
            assert receive(subscription, f"{topic}:child")
        served.notify(topic)
        served.notifier.close()

    with served.notifier.subscribe([topic]) as subscription:
        assert forked(in_child) == 0
        if not served.notifier.crosses_processes:
            return
        assert receive(subscription, topic)
        served.notifier.notify(topic)
        assert receive(subscription, topic), "the parent's transport has survived its child"
        with served.neighbor() as neighbor:
            assert tell(neighbor, f"notify {topic}") == "notified"
            assert receive(subscription, topic)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@crossing
def test_what_was_notified_is_sent_when_one_of_several_notifiers_is_closed(
    served: Served, topic: str
) -> None:
    """They share a transport, which stays open for the others."""

    def in_child() -> None:
        with open_notifier(served.database, served.doorbell) as closed_first:
            assert closed_first.connected(SECONDS)
            served.notify("before")  # so that the next one is sent after its commit
            served.notify(topic)

    for _ in range(10):
        with served.notifier.subscribe([topic]) as subscription:
            assert forked(in_child) == 0
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
def test_after_a_restart_of_the_server_all_are_notified_and_notifications_arrive(
    service: str, tmp_path: Path, topic: str
) -> None:
    with temporary_stack() as stack:
        url = stack.up([service])[service]
        store = url if service == "postgres" else f"sqlite:///{tmp_path}/afl.db"
        doorbell = "auto" if service == "postgres" else url
        with opened(store, doorbell) as served, served.notifier.subscribe([topic]) as subscription:
            stack.down()
            served.notifier.notify("while-away")  # neither fails nor waits
            assert stack.up([service])[service] == url
            assert subscription.wait(SECONDS) == {topic}, "something may have been notified meanwhile"
            with served.neighbor() as neighbor:
                assert tell(neighbor, f"notify {topic}") == "notified"
                assert receive(subscription, topic)
