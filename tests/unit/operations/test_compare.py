"""Two runs are compared: what differs is said, and comes first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from afl.kernel.errors import InputError, NotFoundError
from afl.operations.program.submission import submit_source
from afl.operations.run.compare import ComparedStep, RunComparison, compare_runs
from afl.operations.run.rerun import rerun
from afl.operations.serialization import plain
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Half(n: Int) => (half: Int)
    facet Kept(n: Int) => (n: Int) andThen { yield Kept(n = $.n) }
    workflow W(n: Int, ns: [Int] = [2, 4]) => (half: Int, all: [Int]) andThen {
        kept = Kept(n = 1)
        h = Half(n = $.n)
        each = Half(n = h.half + kept.n)
        yield W(half = each.half)
    } andThen foreach x in $.ns {
        one = Half(n = $.x)
        yield W(all = [one.half])
    }
}
"""


def half(n: int) -> dict[str, Any]:
    if n < 0:
        raise ValueError(f"{n} is negative")
    return {"half": n // 2}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


def ran(store: MemoryStore, source: str = SOURCE, **inputs: Any) -> str:
    run = submit_source(store, source, inputs=inputs).run
    with LocalRunner(Evaluator(store), Handlers.of({"t.Half": half})) as runner:
        runner.resume(WorkflowId(run))
    return run


def step(found: RunComparison, name: str) -> ComparedStep:
    (each,) = [each for each in found.steps if each.step == name]
    return each


def test_two_runs_of_the_same_start_are_the_same(store: MemoryStore) -> None:
    found = compare_runs(store, ran(store, n=8), ran(store, n=8))
    assert found.is_same
    assert (found.different, found.same, found.source) == (0, len(found.steps), [])
    assert not any(each.differs for each in found.facts if each.name != "duration_ms")


def test_inputs_steps_and_results_that_differ_come_first(store: MemoryStore) -> None:
    found = compare_runs(store, ran(store, n=8), ran(store, n=40))
    assert not found.is_same
    assert [(each.name, each.differs) for each in found.inputs] == [("n", True), ("ns", False)]
    assert [each.name for each in found.outputs if each.differs] == ["half"]
    assert [each.step for each in found.steps if each.differs] == ["h", "each"]
    assert [each.differs for each in found.steps] == [True, True] + [False] * (found.same)
    assert [(each.name, each.first, each.second) for each in step(found, "h").values] == [
        ("n", "8", "40"),
        ("half", "4", "20"),
    ]


def test_a_failure_and_what_was_not_reached_are_told(store: MemoryStore) -> None:
    found = compare_runs(store, ran(store, n=8), ran(store, n=-1))
    failed, after = step(found, "h"), step(found, "each")
    assert failed.second is not None and failed.second.state == "failed"
    assert "-1 is negative" in failed.second.error
    assert after.first is not None and after.second is None
    facts = {each.name: each for each in found.facts}
    assert (facts["state"].first, facts["state"].second) == ('"completed"', '"failed"')


def test_elements_of_a_foreach_are_compared_one_by_one(store: MemoryStore) -> None:
    found = compare_runs(store, ran(store, n=8), ran(store, n=8, ns=[2, 6, 8]))
    differing = {each.step: (each.first is None, each.second is None) for each in found.steps if each.differs}
    assert differing == {"[1].one": (False, False), "[2].one": (True, False)}


def test_another_program_is_shown_as_a_difference_of_sources(store: MemoryStore) -> None:
    changed = SOURCE.replace("h.half + kept.n", "h.half * 100")
    found = compare_runs(store, ran(store, n=8), ran(store, changed, n=8))
    assert [line for line in found.source if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        "-        each = Half(n = h.half + kept.n)",
        "+        each = Half(n = h.half * 100)",
    ]


def test_a_long_value_is_cut_and_compared_whole(store: MemoryStore) -> None:
    source = "workflow Echo(text: String) => (text: String) andThen { yield Echo(text = $.text) }"
    runs = [submit_source(store, source, inputs={"text": "x" * 9_000 + end}).run for end in "ab"]
    for each in runs:
        Evaluator(store).resume(WorkflowId(each))
    found = compare_runs(store, *runs)
    (value,) = found.outputs
    assert value.differs and len(value.first) == len(value.second) == 2_000


def test_only_so_many_steps_are_shown_and_all_are_counted(store: MemoryStore) -> None:
    found = compare_runs(store, ran(store, n=8), ran(store, n=40), limit=1)
    assert [each.step for each in found.steps] == ["h"]
    assert found.different == 2 and found.same > 0


def test_it_is_plain_data_and_an_unknown_run_is_said(store: MemoryStore) -> None:
    run = ran(store, n=8)
    assert plain(compare_runs(store, run, run))["different"] == 0
    with pytest.raises(NotFoundError):
        compare_runs(store, run, "nothing")


def test_a_rerun_is_compared_with_the_run_that_it_repeats(store: MemoryStore) -> None:
    first = ran(store, n=8)
    with pytest.raises(InputError, match="neither a rerun nor a fork"):
        compare_runs(store, first)
    again = rerun(store, first, {"n": 10}).run
    found = compare_runs(store, again)
    assert (found.first.run, found.second.run) == (first, again)
    assert [each.name for each in found.inputs if each.differs] == ["n"]
