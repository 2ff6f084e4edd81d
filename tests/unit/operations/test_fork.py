"""Forking a run at a step: what is kept, what may be edited, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from afl.kernel.errors import CorruptRow, InputError, NotFoundError
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import RunExists
from afl.operations.run import control, runs
from afl.operations.run.fork import fork, fork_form
from afl.operations.run.lineage import REMOVED
from afl.operations.run.query import query
from afl.operations.run.run_summary import get_budget, run_summary, set_budget
from afl.operations.run.run_timeline import run_timeline
from afl.operations.run.run_view import show_run
from afl.operations.run.step_view import show_step
from afl.runtime.entities import RunnerState
from afl.runtime.evaluation.fork_check import (
    ChildInProgress,
    ForkRefused,
    ProgramMisfit,
    StepNotBegun,
    StepNotInProgram,
)
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace t {
    event facet Load(n: Long) => (v: Long)
    event facet Add(a: Long, b: Long) => (v: Long)
    facet Double(n: Long) => (v: Long) andThen {
        twice = Add(a = $.n, b = $.n)
        yield Double(v = twice.v)
    }
    workflow Sum(x: Long, y: Long = 2) => (r: Long) andThen {
        a = Load(n = $.x)
        b = Load(n = $.y)
        c = Add(a = a.v, b = b.v)
        beside = Load(n = 100)
        yield Sum(r = c.v)
    }
    workflow Nested(x: Long) => (r: Long) andThen {
        a = Load(n = $.x)
        d = Double(n = a.v)
        said = sys.Publish(name = "a", value = a.v)
        e = Load(n = 9) andThen {
            inside = Add(a = e.v, b = d.v)
            free = Load(n = 50)
            yield Nested(r = inside.v)
        }
    }
    workflow Each(list: [Long]) => (all: [Long], rest: Long) andThen foreach n in $.list {
        one = Load(n = n)
        two = Add(a = one.v, b = 1)
        yield Each(all = [two.v])
    } andThen {
        other = Load(n = 7)
        yield Each(rest = other.v)
    }
    workflow Many(n: Long) => (k: Long = 0) andThen repeat s {
        more = Add(a = s.k, b = 1)
        yield Many(k = more.v)
    } until s.k >= $.n
    workflow Few(n: Long) => (k: Long = 0) andThen repeat s limit 2 + 3 {
        more = Add(a = s.k, b = 1)
        yield Few(k = more.v)
    } until s.k >= $.n
    workflow Calls() => (r: Long) andThen {
        first = Load(n = 1)
        sum = Sum(x = 1) with Run(id = "child") with After(first)
        yield Calls(r = sum.r)
    }
    workflow Late(x: Long) => (r: Long) andThen {
        a = Load(n = $.x)
        b = Load(n = a.v)
        c = Load(n = b.v)
        yield Late(r = c.v)
    }
}
"""


class Stage:
    """Runs with agents that count what they do."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.done: list[str] = []
        self.handlers: Any = Handlers.of({"t.Load": self.load, "t.Add": self.add})

    def load(self, n: int) -> dict[str, int]:
        self.done.append(f"load {n}")
        if n == 13:
            raise ValueError("thirteen")
        return {"v": n}

    def add(self, a: int, b: int) -> dict[str, int]:
        self.done.append(f"add {a} {b}")
        return {"v": a + b}

    def run(self, workflow: str, handlers: Any = None, **inputs: Any) -> str:
        program = choose_workflow(compile_source(SOURCE), f"t.{workflow}")
        report = runs.start(self.store, program, inputs, handlers=handlers or self.handlers, tags={"k": "v"})
        self.done.clear()
        return report.run

    def finish(self, run: str) -> tuple[dict[str, Any], list[str]]:
        """The outputs, and what the agents did for them."""
        self.done.clear()
        outputs = runs.resume(self.store, run, handlers=self.handlers).outputs
        return outputs, sorted(self.done)

    def fork(self, run: str, step: str, **edits: Any) -> tuple[dict[str, Any], list[str]]:
        return self.finish(fork(self.store, run, step, **edits).run)


@pytest.fixture
def stage(store: MemoryStore) -> Stage:
    return Stage(store)


# -- what is kept -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "again"),
    [
        ("a", ["add 3 2", "load 3"]),
        ("b", ["add 3 2", "load 2"]),
        ("c", ["add 3 2"]),
        ("beside", ["load 100"]),
        ("yield", []),
    ],
)
def test_only_what_depends_on_the_step_is_executed_again(stage: Stage, step: str, again: list[str]) -> None:
    assert stage.fork(stage.run("Sum", x=3), step) == ({"r": 5}, again)


@pytest.mark.parametrize(
    ("step", "again"),
    [
        ("a", ["add 3 3", "add 9 6", "load 3", "load 50"]),
        ("d.twice", ["add 3 3", "add 9 6", "load 50"]),
        ("e.inside", ["add 9 6"]),
        ("e.free", ["load 50"]),
        ("e", ["add 9 6", "load 50", "load 9"]),
    ],
)
def test_steps_inside_of_others(stage: Stage, step: str, again: list[str]) -> None:
    """The body of e begins when all that it takes from outside is complete, so all of it depends on d."""
    assert stage.fork(stage.run("Nested", x=3), step) == ({"r": 15}, again)


def test_an_element_of_a_foreach(stage: Stage) -> None:
    run = stage.run("Each", list=[5, 6, 7])
    assert stage.fork(run, "[1].two") == ({"all": [6, 7, 8], "rest": 7}, ["add 6 1"])
    assert stage.fork(run, "[1]") == ({"all": [6, 7, 8], "rest": 7}, ["add 6 1", "load 6"])
    assert stage.fork(run, "[1]", inputs={"n": 60}) == (
        {"all": [6, 61, 8], "rest": 7},
        ["add 60 1", "load 60"],
    )


def test_an_iteration_of_a_repeat_and_those_after_it(stage: Stage) -> None:
    assert stage.fork(stage.run("Many", n=4), "[2].more") == ({"k": 4}, ["add 2 1", "add 3 1"])


def test_an_iteration_of_a_repeat_with_a_limit(stage: Stage) -> None:
    run = stage.run("Few", n=3)
    assert stage.fork(run, "[1]") == ({"k": 3}, ["add 1 1", "add 2 1"])
    assert stage.fork(run, "[0].more", inputs={"a": -5}) == ({}, [f"add {n} 1" for n in (-1, -2, -3, -4, -5)])


def test_the_rest_of_a_failed_run_is_executed_again(stage: Stage) -> None:
    run = stage.run("Sum", x=13)
    outputs, done = stage.fork(run, "a", inputs={"n": 1})
    assert (outputs, done) == ({"r": 3}, ["add 1 2", "load 1"])


def test_a_run_that_goes_on_can_be_forked(stage: Stage) -> None:
    run = stage.run("Sum", Handlers.of({"t.Load": stage.load}), x=3)
    assert stage.fork(run, "b") == ({"r": 5}, ["add 3 2", "load 2"])
    assert stage.finish(run) == ({"r": 5}, ["add 3 2"])


def test_a_fork_of_a_fork(stage: Stage) -> None:
    first = fork(stage.store, stage.run("Nested", x=3), "e.free").run
    stage.finish(first)
    assert stage.fork(first, "e.inside") == ({"r": 15}, ["add 9 6"])


def test_the_source_is_not_changed(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    before = (stage.store.get_run(WorkflowId(run)), stage.store.get_steps_by_workflow(WorkflowId(run)))
    stage.fork(run, "a", inputs={"n": 4})
    assert (
        stage.store.get_run(WorkflowId(run)),
        stage.store.get_steps_by_workflow(WorkflowId(run)),
    ) == before


def test_what_kept_steps_published_can_be_read(stage: Stage) -> None:
    run = stage.run("Nested", x=3)
    kept = fork(stage.store, run, "d").run
    assert query(stage.store, kept, "a").values == {"a": 3}
    assert stage.store.get_published(WorkflowId(fork(stage.store, run, "a").run)) == []


def test_agents_can_tell_the_work_of_a_fork_from_that_of_its_source(stage: Stage) -> None:
    keys: list[str] = []

    def load(n: int, context: Any) -> dict[str, int]:
        keys.append(context.idempotency_key)
        return {"v": n}

    stage.handlers = Handlers.of({"t.Load": load, "t.Add": stage.add})
    stage.fork(stage.run("Sum", x=3), "a")
    assert len(set(keys)) == len(keys) == 4


# -- edits ------------------------------------------------------------------------------------------------------


def test_inputs_of_the_step(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    assert stage.fork(run, "b", inputs={"n": 40}) == ({"r": 43}, ["add 3 40", "load 40"])
    assert stage.fork(run, "c", texts=["b=40"]) == ({"r": 43}, ["add 3 40"])


def test_inputs_that_were_set_stay_when_the_step_is_retried(stage: Stage) -> None:
    forked = fork(stage.store, stage.run("Sum", x=3), "b", inputs={"n": 13}).run
    stage.finish(forked)
    failed = stage.store.get_run(WorkflowId(forked))
    assert failed is not None
    assert failed.state == RunnerState.FAILED
    stage.handlers = Handlers.of({"t.Load": lambda n: {"v": n}, "t.Add": stage.add})
    control.retry(stage.store, forked)
    assert stage.finish(forked) == ({"r": 16}, ["add 3 13"])


def test_results_of_kept_steps(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    assert stage.fork(run, "beside", results={"a": {"v": 40}}) == ({"r": 42}, ["add 40 2", "load 100"])
    assert stage.fork(run, "c", result_texts=["a.v=40", "b.v=1"]) == ({"r": 41}, ["add 40 1"])
    nested = stage.run("Nested", x=3)
    assert stage.fork(nested, "e.inside", result_texts=["d.v=1"]) == (
        {"r": 10},
        ["add 9 1", "load 50"],
    )


@pytest.mark.parametrize(
    ("edits", "told"),
    [
        ({"inputs": {"z": 1}}, "c: unknown input 'z'; known: a, b"),
        ({"texts": ["a=x"]}, "c: input 'a': expected Long, got String 'x'"),
        ({"texts": ["a"]}, "expected an input of the step, NAME=VALUE, got 'a'"),
        ({"results": {"c": {"v": 1}}}, "the result of c cannot be given: it is executed again"),
        ({"results": {"a": {"v": "x"}}}, "a: t.Load: return field 'v': expected Long, got String 'x'"),
        ({"results": {"a": {"w": 1}}}, "unknown return field 'w'"),
        ({"result_texts": ["a=1"]}, "expected a result, STEP.NAME=VALUE, got 'a=1'"),
    ],
)
def test_edits_that_do_not_fit(stage: Stage, edits: dict[str, Any], told: str) -> None:
    run = stage.run("Sum", x=3)
    with pytest.raises(InputError, match=told):
        fork(stage.store, run, "c", **edits)
    assert len(stage.store.get_runs()) == 1


def test_inputs_of_a_step_that_has_to_wait_cannot_be_set(stage: Stage) -> None:
    run = stage.run("Late", Handlers.of({"t.Load": lambda n: {"v": n + 5}}), x=3)
    with pytest.raises(ForkRefused, match="the inputs of c cannot be given"):
        fork(stage.store, run, "c", inputs={"n": 1}, results={"a": {"v": 1}})


# -- another program --------------------------------------------------------------------------------------------


def changed(*pairs: tuple[str, str]) -> str:
    source = SOURCE
    for before, after in pairs:
        assert before in source
        source = source.replace(before, after)
    return source


def test_another_program(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    source = changed(
        ("c = Add(a = a.v, b = b.v)", "c = Add(a = a.v * 2, b = b.v)\n new = Load(n = 8)"),
        ("x: Long, y: Long = 2", "x: Long, y: Long = 2, z: Long = 1"),
        ("yield Sum(r = c.v)", "last = Add(a = c.v, b = new.v)\n yield Sum(r = last.v + $.z)"),
    )
    assert stage.fork(run, "c", source=source) == ({"r": 17}, ["add 6 2", "add 8 8", "load 8"])


def test_a_step_that_now_depends_on_the_chosen_one_is_executed_again(stage: Stage) -> None:
    source = changed(("beside = Load(n = 100)", "beside = Load(n = 100 + a.v)"))
    assert stage.fork(stage.run("Sum", x=3), "a", source=source) == (
        {"r": 5},
        ["add 3 2", "load 103", "load 3"],
    )


@pytest.mark.parametrize(
    ("workflow", "step", "pairs", "problems"),
    [
        (
            "Sum",
            "c",
            [("b = Load(n = $.y)", "b2 = Load(n = $.y)"), ("b = b.v)", "b = b2.v)")],
            ["b is not in it"],
        ),
        (
            "Nested",
            "e.inside",
            [("e = Load(n = 9) andThen {", "e = Load(n = 9) andThen foreach q in [1] {")],
            ["e has another kind of block"],
        ),
        ("Sum", "c", [("beside = Load", "beside = Double")], ["beside calls t.Double, not t.Load"]),
        (
            "Sum",
            "c",
            [("Load(n: Long)", "Load(n: Long, m: Long = 1)")],
            [f"{name}: the signature of t.Load is another one" for name in ("a", "b", "beside")],
        ),
        (
            "Nested",
            "e.inside",
            [("yield Double(v", "extra = Load(n = 1)\n yield Double(v")],
            ["d.extra is new, in a block that is kept"],
        ),
        (
            "Each",
            "other",
            [("foreach n in $.list", "foreach m in $.list"), ("Load(n = n)", "Load(n = m)")],
            ["the workflow has another kind of block"],
        ),
    ],
)
def test_a_program_that_does_not_fit(
    stage: Stage, workflow: str, step: str, pairs: list[tuple[str, str]], problems: list[str]
) -> None:
    inputs = {"Each": {"list": [1]}}.get(workflow, {"x": 3})
    run = stage.run(workflow, **inputs)
    with pytest.raises(ProgramMisfit) as refused:
        fork(stage.store, run, step, source=changed(*pairs))
    assert refused.value.problems[: len(problems)] == problems
    assert len(stage.store.get_runs()) == 1


@pytest.mark.parametrize(
    ("workflow", "step", "pairs"),
    [
        ("Sum", "c", [("c = Add(", "c2 = Add("), ("yield Sum(r = c.v", "yield Sum(r = c2.v")]),
        ("Nested", "d.twice", [("twice = Add", "thrice = Add"), ("twice.v", "thrice.v")]),
    ],
)
def test_a_program_without_the_chosen_step(
    stage: Stage, workflow: str, step: str, pairs: list[tuple[str, str]]
) -> None:
    run = stage.run(workflow, x=3)
    with pytest.raises(StepNotInProgram, match=f"the program does not have {step}$"):
        fork(stage.store, run, step, source=changed(*pairs))
    assert len(stage.store.get_runs()) == 1


def test_a_program_whose_workflow_needs_more_inputs(stage: Stage) -> None:
    source = changed(("workflow Late(x: Long)", "workflow Late(x: Long, z: Long)"))
    with pytest.raises(InputError, match="input 'z' is missing"):
        fork(stage.store, stage.run("Late", x=3), "c", source=source)


# -- refusals ---------------------------------------------------------------------------------------------------


def refusal(error: type[Exception], text: str) -> Callable[[Stage, str, str], None]:
    def check(stage: Stage, run: str, step: str) -> None:
        before = len(stage.store.get_runs())
        with pytest.raises(error, match=text):
            fork(stage.store, run, step)
        assert len(stage.store.get_runs()) == before

    return check


def test_a_step_that_is_not_there(stage: Stage) -> None:
    refusal(NotFoundError, "has no step 'nope'")(stage, stage.run("Sum", x=3), "nope")
    refusal(NotFoundError, "there is no run nope")(stage, "nope", "a")


def test_a_step_that_has_not_begun(stage: Stage) -> None:
    refusal(StepNotBegun, "c has not started")(stage, stage.run("Late", x=13), "c")


def test_the_run_itself(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    refusal(ForkRefused, "afl rerun")(stage, run, "")


def test_an_iteration_that_was_removed(stage: Stage) -> None:
    run = stage.run("Many", n=20)
    refusal(StepNotBegun, "was removed")(stage, run, "0/#3/more")
    assert stage.fork(run, "0/#18/more") == ({"k": 20}, ["add 18 1", "add 19 1"])


def test_a_child_run_that_goes_on(stage: Stage) -> None:
    only_loads = Handlers.of({"t.Load": stage.load})
    run = stage.run("Calls", only_loads)
    refusal(ChildInProgress, "sum would be executed again, and its child run child is running")(
        stage, run, "first"
    )


def test_a_run_whose_program_is_gone(stage: Stage) -> None:
    run = stage.store.get_run(WorkflowId(stage.run("Sum", x=3)))
    assert run is not None
    run.workflow_id, run.program_hash, run.state = "gone", "0" * 64, RunnerState.CREATED
    stage.store.insert_run(run)
    refusal(CorruptRow, "program 000000000000 of a run is missing")(stage, "gone", "a")


def test_an_id_of_its_own(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    assert fork(stage.store, run, "a", id="mine").run == "mine"
    with pytest.raises(RunExists):
        fork(stage.store, run, "a", id="mine")
    with pytest.raises(InputError):
        fork(stage.store, run, "a", id="no/id")


# -- what people see --------------------------------------------------------------------------------------------


def test_lineage_is_shown_both_ways(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    forked = fork(stage.store, run, "c")
    assert (forked.origin, forked.step, forked.kept, forked.again) == (run, "c", 3, 1)
    (copy,) = run_summary(stage.store, run).lineage.copies
    assert (copy.run, copy.step, copy.path, copy.state) == (forked.run, "c", "0/c", RunnerState.RUNNING)
    origin = show_run(stage.store, forked.run).lineage.origin
    assert origin is not None
    assert (origin.run, origin.step, origin.path, origin.state) == (run, "c", "0/c", RunnerState.COMPLETED)
    stage.finish(forked.run)
    found = stage.store.get_run(WorkflowId(run))
    assert found is not None
    stage.store.delete_runs(found.ended + 1, 1)
    origin = show_run(stage.store, forked.run).lineage.origin
    assert origin is not None
    assert origin.state == REMOVED


def test_name_tags_and_budget_are_those_of_the_source(stage: Stage) -> None:
    run = stage.run("Sum", x=3)
    set_budget(stage.store, run, usd=2.5, tokens=10)
    forked = fork(stage.store, run, "c").run
    line = run_summary(stage.store, forked).line
    assert (line.tags, line.state) == ({"k": "v"}, RunnerState.RUNNING)
    budget = get_budget(stage.store, forked)
    assert budget is not None
    assert (budget.usd, budget.tokens, budget.spent_usd) == (2.5, 10, 0)


def test_kept_steps_take_no_time_in_the_fork(stage: Stage) -> None:
    forked = fork(stage.store, stage.run("Sum", x=3), "c").run
    stage.finish(forked)
    timeline = run_timeline(stage.store, forked)
    run = stage.store.get_run(WorkflowId(forked))
    assert run is not None
    assert timeline.began == run.created
    kept = show_step(stage.store, f"{forked}/a")
    assert (kept.kept_from, show_step(stage.store, f"{forked}/c").kept_from) == (run.source, "")
    assert (kept.state, kept.outputs, kept.tasks, kept.duration_ms) == ("completed", {"v": 3}, [], 0)


def test_the_form_tells_what_a_fork_would_do(stage: Stage) -> None:
    found = fork_form(stage.store, stage.run("Sum", x=3), "c")
    assert (found.step, found.kept, found.again) == ("c", 3, 1)
    assert [(field.name, field.default) for field in found.form.fields] == [("a", 3), ("b", 2)]
    assert len(stage.store.get_runs()) == 1
    element = fork_form(stage.store, stage.run("Each", list=[1, 2]), "[0]")
    assert (element.form.fields, element.again) == ((), 2)
