"""The tree of a run: places of the program, foreach folded, errors where they happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.run import runs
from afl.operations.run.run_tree import RunTree, StepNode, show
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """namespace t {
    event facet Work(n: Long) => (m: Long)
    facet Size(n: Long) => (word: String) andThen when {
        case $.n > 2 => {
            yield Size(word = "large")
        }
        case _ => {
            yield Size(word = "small")
        }
    }
    facet Each(xs: [Long]) => (ms: [Long]) andThen foreach x in $.xs {
        w = Work(n = x) catch {
            yield Work(m = 0)
        }
        size = Size(n = x)
        yield Each(ms = [w.m])
    }
    workflow W(xs: [Long], last: Long = 1) => (ms: [Long]) andThen {
        each = Each(xs = $.xs)
        end = Work(n = $.last)
        yield W(ms = each.ms)
    }
}
"""


def work(n: int) -> dict[str, Any]:
    if n < 0:
        raise ValueError("too small")
    return {"m": n}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


def tree(store: MemoryStore, *, handlers: bool = True, **inputs: Any) -> RunTree:
    program = choose_workflow(compile_source(SOURCE))
    known = Handlers.of({"t.Work": work} if handlers else {})
    report = runs.start(store, program, inputs, handlers=known)
    return show(store, runs.find(store, report.run))


def names(node: StepNode) -> Any:
    return {child.name: names(child) for child in node.children}


def node(found: RunTree, *way: str) -> StepNode:
    at = found.root
    for name in way:
        at = next(child for child in at.children if child.name == name)
    return at


def test_blocks_and_yields_are_left_out(store: MemoryStore) -> None:
    found = tree(store, xs=[1, 2, 3])
    assert found.root.name == "t.W"
    assert names(found.root) == {
        "each": {"foreach x": {"w": {}, "size": {"case $.n > 2": {}, "case _": {}}}},
        "end": {},
    }


def test_elements_are_counted(store: MemoryStore) -> None:
    found = tree(store, xs=[1, 2, 3, -1])
    counts = node(found, "each", "foreach x", "w").counts
    assert (counts.total, counts.completed, counts.caught, counts.failed) == (4, 3, 1, 0)
    assert counts.state == "caught"
    assert node(found, "each", "foreach x", "w").caught == "too small"
    assert node(found, "each", "foreach x", "size", "case $.n > 2").counts.total == 1
    assert node(found, "each", "foreach x", "size", "case _").counts.total == 3


def test_a_failure_stands_on_its_step_and_those_around_it(store: MemoryStore) -> None:
    found = tree(store, xs=[1], last=-1)
    end = node(found, "end")
    assert end.counts.state == found.root.counts.state == "failed"
    assert end.error is not None and end.error.message == "too small"
    assert node(found, "each").counts.state == "completed"


def test_a_waiting_run(store: MemoryStore) -> None:
    found = tree(store, handlers=False, xs=[1, 2])
    assert node(found, "end").counts.state == "waiting"
    assert node(found, "each", "foreach x", "w").counts.waiting == 2
    assert found.root.counts.state == "running"
    assert node(found, "end").ended == 0
    assert node(found, "end").duration_ms(found.seen + 5) >= 5


def test_no_elements_at_all(store: MemoryStore) -> None:
    found = tree(store, xs=[])
    assert node(found, "each", "foreach x").counts.state == "completed"
    assert node(found, "each", "foreach x").children == []


def test_durations_end_with_the_last_step(store: MemoryStore) -> None:
    found = tree(store, xs=[1, 2, 3])
    assert found.root.ended > 0
    assert 0 <= node(found, "end").duration_ms(0) <= found.root.duration_ms(0)
