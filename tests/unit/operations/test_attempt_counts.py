"""Attempt counts: whoever tells how many there were tells as many as there are rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from operated_store import begin, task_of

from afl.operations.people import approvals
from afl.operations.run import control, run_tree, runs
from afl.operations.run.step_view import show_step
from afl.operations.work.task_queue import show_task
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.task_handlers.handler import Handlers

FETCH = """namespace t {{
    event facet Fetch(n: Long) => (m: Long) with {policy}
    workflow Page(n: Long) => (m: Long) andThen {{
        a = Fetch(n = $.n)
        yield Page(m = a.m)
    }}
}}
"""


def fail(n: int) -> dict[str, int]:
    raise ValueError("no")


def in_the_end(n: int, calls: list[int] = []) -> dict[str, int]:  # noqa: B006 - one list for all attempts
    calls.append(n)
    return fail(n) if len(calls) % 3 else {"m": n}


def three_failures(store: PersistenceAPI) -> str:
    return begin(store, FETCH.format(policy="Retry(attempts = 3, backoff = 0)"), Fetch=fail)


def the_third_works(store: PersistenceAPI) -> str:
    return begin(store, FETCH.format(policy="Retry(attempts = 3, backoff = 0)"), Fetch=in_the_end)


def waiting_to_be_claimed(store: PersistenceAPI) -> str:
    return begin(store, FETCH.format(policy="Timeout(hours = 1)"))


def running(store: PersistenceAPI) -> str:
    run = waiting_to_be_claimed(store)
    store.claim_task(["t.Fetch"])
    return run


def canceled_while_it_ran(store: PersistenceAPI) -> str:
    run = running(store)
    control.cancel(store, run)
    return run


def asked(store: PersistenceAPI) -> str:
    return begin(store, FETCH.format(policy='Human("ada") with Retry(3, backoff = 0, on = ["Rejected"])'))


def asked_twice(store: PersistenceAPI) -> str:
    run = asked(store)
    (question,) = approvals.list_approvals(store, run=run)
    approvals.reject(store, question.id, by="ada")
    runs.resume(store, run, handlers=Handlers())
    return run


def answered_at_last(store: PersistenceAPI) -> str:
    run = asked_twice(store)
    (question,) = approvals.list_approvals(store, run=run)
    approvals.answer(store, question.id, {"m": 2}, by="ada")
    runs.resume(store, run, handlers=Handlers())
    return run


def rejected(store: PersistenceAPI) -> str:
    run = begin(store, FETCH.format(policy='Human("ada")'))
    (question,) = approvals.list_approvals(store, run=run)
    approvals.reject(store, question.id, by="ada")
    runs.resume(store, run, handlers=Handlers())
    return run


def canceled_while_asked(store: PersistenceAPI) -> str:
    run = asked(store)
    control.cancel(store, run)
    return run


@pytest.mark.parametrize(
    ("state", "made", "failed"),
    [
        (three_failures, 3, 3),
        (the_third_works, 3, 2),
        (waiting_to_be_claimed, 0, 0),
        (running, 1, 0),
        (canceled_while_it_ran, 1, 0),
        (asked, 1, 0),
        (asked_twice, 2, 1),
        (answered_at_last, 2, 1),
        (rejected, 1, 1),
        (canceled_while_asked, 0, 0),
    ],
)
def test_counts_match_the_rows(
    store: MemoryStore, state: Callable[[PersistenceAPI], str], made: int, failed: int
) -> None:
    run = state(store)
    view = show_step(store, f"{run}/a")
    assert [each.number for each in view.attempts] == list(range(1, made + 1))
    assert sum(each.outcome == "failed" for each in view.attempts) == failed
    (task,) = view.tasks
    line = show_task(store, task_of(store, run).uuid).line
    (node,) = run_tree.show(store, runs.find(store, run)).root.children
    assert node.work is not None
    assert {task.attempts, line.attempts, node.work.attempts} == {made}
    assert {task.failures, line.failures, node.work.failures} == {failed}
