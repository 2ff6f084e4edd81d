"""Child runs as people see them: parent and children of a run, what the parent waits for, what is to be done."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.clock import wall_ms
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.run import control, runs
from afl.operations.run.lineage import REMOVED
from afl.operations.run.run_graph import run_graph
from afl.operations.run.run_list import list_runs
from afl.operations.run.run_summary import run_summary
from afl.operations.run.run_view import show_run
from afl.operations.run.step_view import show_step
from afl.runtime.entities import RunnerState
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Charge(n: Long) => (total: Long)
    workflow Order(n: Long) => (total: Long) andThen {
        paid = Charge(n = $.n)
        yield Order(total = paid.total)
    }
    workflow Main(n: Long) => (total: Long) andThen {
        order = Order(n = $.n) with Run(id = "order-7")
        other = Order(n = $.n) with Run(id = "order-8", onParentClose = "detach", wait = false)
        yield Main(total = order.total)
    }
}
"""


def start(store: MemoryStore, **functions: Any) -> runs.RunReport:
    program = choose_workflow(compile_source(SOURCE, name="shop.afl"), "t.Main")
    handlers = Handlers.of({f"t.{name}": function for name, function in functions.items()})
    return runs.start(store, program, {"n": 3}, handlers=handlers)


@pytest.fixture
def run(store: MemoryStore) -> str:
    """A run that waits for a child, which waits for an agent."""
    return start(store).run


def test_a_run_shows_its_children(store: MemoryStore, run: str) -> None:
    lineage = show_run(store, run).lineage
    assert lineage.parent is None
    assert {(each.run, each.workflow, each.state, each.step) for each in lineage.children} == {
        ("order-7", "t.Order", RunnerState.RUNNING, "order"),
        ("order-8", "t.Order", RunnerState.RUNNING, "other"),
    }
    assert (lineage.counts, lineage.total) == ({RunnerState.RUNNING: 2}, 2)
    assert run_summary(store, run).lineage == lineage


def test_the_latest_run_is_no_child(store: MemoryStore, run: str) -> None:
    assert show_run(store).line.run == run
    assert {line.run: line.parent for line in list_runs(store).runs} == {
        run: "",
        "order-7": run,
        "order-8": run,
    }


def test_a_child_shows_its_parent(store: MemoryStore, run: str) -> None:
    parent = show_run(store, "order-7").lineage.parent
    assert parent is not None
    assert (parent.run, parent.workflow, parent.state) == (run, "t.Main", RunnerState.RUNNING)
    assert (parent.step, parent.path, parent.on_close) == ("order", "0/order", "cancel")
    assert show_run(store, "order-7").lineage.children == []


def test_a_child_whose_parent_was_removed_says_so(store: MemoryStore, run: str) -> None:
    control.cancel(store, run)
    control.cancel(store, "order-7")
    store.delete_runs(wall_ms() + 1, 10)
    parent = show_run(store, "order-8").lineage.parent
    assert parent is not None
    assert (parent.run, parent.state) == (run, REMOVED)


def test_a_step_leads_to_its_run(store: MemoryStore, run: str) -> None:
    assert [each.run for each in show_step(store, f"{run}/order").child_runs] == ["order-7"]
    assert [each.run for each in show_step(store, f"{run}/other").child_runs] == ["order-8"]
    assert show_step(store, "order-7/paid").child_runs == []


def test_tree_and_graph_mark_child_runs(store: MemoryStore, run: str) -> None:
    nodes = {node.name: node for node in show_run(store, run).tree.root.children}
    assert (nodes["order"].starts_runs, nodes["order"].children) == (True, [])
    assert not show_run(store, "order-7").tree.root.children[0].starts_runs
    graph = {node.id: node for node in run_graph(store, run).nodes}
    assert (graph["0/order"].kind, graph["0/order"].via) == ("event", "child run")


def test_a_report_says_what_the_children_wait_for(store: MemoryStore) -> None:
    report = start(store)
    assert [(each.facet, each.steps) for each in report.waiting_for] == [("t.Charge", 1)]


def test_a_child_that_nobody_waits_for_is_left_to_others(store: MemoryStore) -> None:
    report = start(store, Charge=lambda n: {"total": n})
    assert report.outputs == {"total": 3}
    left = store.get_run(WorkflowId("order-8"))
    assert left is not None
    assert left.owner == ""
