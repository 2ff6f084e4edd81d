"""Requests of remote workers that wait for tasks: they end when one comes, or their worker stops or hangs up."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from afl.kernel.notify import Subscription
from afl.operations.work.remote_claims import own_failure
from afl.runtime.entities import TaskDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.topics import tasks_topic

LONGEST_POLL_SECONDS = 30.0
"""A request is not kept waiting for longer, whatever it asks for."""
_CHECK_SECONDS = 1.0  # how often to look for tasks whose notification was lost
_guard = threading.Lock()
_waiting: dict[str, dict[Subscription, threading.Event]] = defaultdict(dict)  # by owner


def end_polls(owner: str) -> None:
    """Let the requests of a worker that wait in this process end now."""
    with _guard:
        for subscription, ended in _waiting.get(owner, {}).items():
            ended.set()
            subscription.wake()


@contextmanager
def _registered(owner: str, subscription: Subscription) -> Iterator[threading.Event]:
    ended = threading.Event()
    with _guard:
        _waiting[owner][subscription] = ended
    try:
        yield ended
    finally:
        with _guard:
            del _waiting[owner][subscription]
            if not _waiting[owner]:
                del _waiting[owner]


def wait_for_tasks(
    store: PersistenceAPI,
    owner: str,
    task_list: str,
    seconds: float,
    claim: Callable[[], list[TaskDefinition]],
    gone: threading.Event,
) -> list[TaskDefinition]:
    """What `claim` gives as soon as it gives any; nothing after so many seconds, or once nobody waits any more.

    A task that the worker has lost while it waited here is left to others, and the wait is over: a worker that lives
    asks again, and one that hangs would only lose it again. One that it said had failed is not lost.
    """
    until = time.monotonic() + min(seconds, LONGEST_POLL_SECONDS)
    with (
        store.subscribe([tasks_topic(task_list)]) as subscription,
        _registered(owner, subscription) as ended,
    ):
        tasks = claim()
        while True:
            left = until - time.monotonic()
            if tasks or left <= 0 or gone.is_set() or ended.is_set():
                return tasks
            due = store.next_due(task_list)
            subscription.wait(min(left, _CHECK_SECONDS if due is None else max(0.0, due / 1000)))
            if gone.is_set() or ended.is_set():
                return []
            tasks = claim()
            if lost := [
                each for each in tasks if each.last_owner == owner and not own_failure(store, each, owner)
            ]:
                store.return_tasks(lost)
                return [each for each in tasks if each not in lost]
