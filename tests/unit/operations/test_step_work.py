"""The work behind a run's steps, and what models used in it, as `afl show` has them."""

from __future__ import annotations

from operated_store import CHAIN, begin, program_of
from support.lives import Lives

from afl.kernel.ids import random_id
from afl.operations.program.submission import submit
from afl.operations.run import control, run_tree, runs
from afl.runtime.entities import LogDefinition
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.usage import UsageRecord
from afl.runtime.stores.usage_store import usage_store
from afl.runtime.task_handlers.handler import Handlers

LOOP = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Loop(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        a = Double(n = n)
        yield Loop(ms = [a.m])
    }
}
"""


def tree_of(store: PersistenceAPI, run: str) -> run_tree.RunTree:
    return run_tree.show(store, runs.find(store, run))


def only(store: PersistenceAPI, run: str) -> run_tree.StepNode:
    """The deepest node on the way down."""
    node = tree_of(store, run).root
    while node.children:
        node = node.children[0]
    return node


def test_attempts_deaths_owner_and_progress(lives: Lives) -> None:
    first = lives.next()
    run = begin(first)
    first.claim_task(["t.Double"])
    second = lives.next()
    second.reclaim()
    task = second.claim_task(["t.Double"])
    assert task is not None
    second.save_logs(
        [LogDefinition(random_id(), 1, run, task.step_id, message="x", details={"progress": 0.4})]
    )
    second.save_logs([LogDefinition(random_id(), 2, run, task.step_id, message="nearly")])
    work = only(second, run).work
    assert work is not None
    assert (work.running, work.attempts, work.repeated, work.deaths) == (1, 2, 1, 1)
    assert (work.owners, work.progress, work.message) == (["life-2"], 0.4, "nearly")


def test_the_tasks_of_a_foreach_are_counted_together(store: MemoryStore) -> None:
    run = begin(store, LOOP, {"ns": [1, 2, 3]})
    store.claim_task(["t.Double"])
    control.pause(store, run)
    work = only(store, run).work
    assert work is not None
    assert (work.running, work.pending, work.held, work.repeated) == (1, 2, {"paused": 2}, 0)


def test_a_run_that_has_not_begun(store: MemoryStore) -> None:
    run = submit(store, program_of(CHAIN), {"n": 3}).run
    tree = tree_of(store, run)
    assert (tree.root.counts.state, tree.steps, tree.root.started) == ("not begun", 0, tree.run.created)


def test_what_models_used(store: MemoryStore) -> None:
    run = submit(store, program_of(CHAIN), {"n": 3}, budget_usd=1.0).run
    runs.resume(store, run, handlers=Handlers())
    assert tree_of(store, run).usage is None
    kept = usage_store(store)
    assert kept is not None
    for cost in (0.25, None):
        kept.record_usage(UsageRecord(run, f"{run}/0/a", "task", "claude-x", 100, 20, cost_usd=cost))
    tree = tree_of(store, run)
    assert tree.usage is not None and tree.budget is not None
    assert (tree.usage.calls, tree.usage.cost_usd, tree.usage.unpriced) == (2, 0.25, 1)
    assert tree.budget.usd == 1.0
    assert only(store, run).usage == tree.usage
