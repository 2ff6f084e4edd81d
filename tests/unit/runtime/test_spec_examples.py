"""The examples of the specification: steps, iterations and outputs, from text and from hand-built programs."""

from __future__ import annotations

from typing import Any

import pytest
from engine_bench import Engine
from runtime_programs import NUMBER, Ast, call, dollar, giving, plus, ref, step

from afl.runtime.evaluator import ExecutionStatus
from afl.runtime.states import EventState, StepState

SPEC_1 = (
    NUMBER
    + """
workflow A(i: Long = 2) => (o: Long) andThen {
    a = N(n = $.i + 42)
    yield A(o = a.n)
}
"""
)
CHAIN = (
    NUMBER
    + """
workflow B(i: Long = 1) => (o: Long) andThen {
    a = N(n = $.i + 1)
    b = N(n = a.n + 1)
    yield B(o = b.n + 1)
}
"""
)
JOIN = (
    NUMBER
    + """
workflow C(i: Long = 1) => (o: Long) andThen {
    a = N(n = $.i + 1)
    b = N(n = $.i + 10)
    c = N(n = a.n + b.n)
    yield C(o = c.n)
}
"""
)
THREE_BLOCKS = (
    NUMBER
    + "workflow C(i: Long = 1) => (o1: Long, o2: Long, o3: Long)"
    + "".join(
        f"""
andThen {{
    a = N(n = $.i + 1)
    b = N(n = $.i + 10)
    c = N(n = a.n + b.n)
    yield C(o{number} = c.n)
}}"""
        for number in (1, 2, 3)
    )
)
MAIN = """
workflow D(x: Long = 1, y: Long = 2) => (r: Long) andThen {
    t = Sum(a = $.x, b = $.y)
    yield D(r = t.s)
}
"""
SPEC_2 = (
    NUMBER
    + MAIN
    + """
facet Sum(a: Long, b: Long) => (s: Long) andThen {
    p = N(n = $.a)
    q = N(n = $.b)
    yield Sum(s = p.n + q.n)
}
"""
)
SPEC_3 = (
    NUMBER
    + MAIN
    + """
facet H(i: Long) => (o: Long)
facet Sum(a: Long, b: Long) => (s: Long) andThen {
    p = H(i = $.a) andThen {
        u = N(n = $.i)
        yield H(o = u.n + 10)
    }
    q = N(n = $.b)
    yield Sum(s = p.o + q.n)
}
"""
)
SPEC_4 = (
    NUMBER
    + MAIN
    + """
namespace example.4 {
    event CountDocuments(input: Long) => (output: Long)
}
facet H(i: Long) => (o: Long)
facet Sum(a: Long, b: Long) => (s: Long) andThen {
    p = H(i = $.a) andThen {
        u = example.4.CountDocuments(input = 3)
        yield H(o = u.input + 10)
    }
    q = N(n = $.b)
    yield Sum(s = p.o + q.n)
}
"""
)

FINISHED = [
    ("no body", "workflow W(i: Long = 2) => (o: Long)", 1, 2, {}),
    ("empty block", "workflow W() andThen { }", 2, 3, {}),
    ("one step", NUMBER + "workflow W() andThen { a = N(n = 1) }", 3, 4, {}),
    ("spec 1", SPEC_1, 4, 5, {"o": 44}),
    ("21.1", CHAIN, 5, 6, {"o": 4}),
    ("21.2", JOIN, 6, 6, {"o": 13}),
    ("21.3", THREE_BLOCKS, 16, 6, {"o1": 13, "o2": 13, "o3": 13}),
    ("spec 2", SPEC_2, 8, 8, {"r": 3}),
    ("spec 3", SPEC_3, 11, 11, {"r": 13}),
]


@pytest.mark.parametrize(
    ("source", "steps", "iterations", "outputs"),
    [row[1:] for row in FINISHED],
    ids=[row[0] for row in FINISHED],
)
def test_examples_from_text(
    engine: Engine, source: str, steps: int, iterations: int, outputs: dict[str, Any]
) -> None:
    result = engine.run(source)
    assert (result.success, result.status, result.error) == (True, ExecutionStatus.COMPLETED, None)
    assert result.outputs == outputs
    assert result.iterations == iterations
    assert engine.store.step_count() == steps
    assert all(each.is_complete for each in engine.store.get_all_steps())
    assert (result.pending_events, engine.store.event_count()) == ([], 0)


def one_block(name: str, steps: list[Ast], **outputs: Any) -> Ast:
    body = {"steps": steps, "yield": giving(name, **outputs)}
    return {"name": name, "params": [{"name": "i", "default": 1}], "body": body}


SUM_BODY = {
    "steps": [step("p", "N", n=dollar("a")), step("q", "N", n=dollar("b"))],
    "yield": giving("Sum", s=plus(ref("p", "n"), ref("q", "n"))),
}
HAND_CHAIN = one_block(
    "B",
    [step("a", "N", n=plus(dollar("i"), 1)), step("b", "N", n=plus(ref("a", "n"), 1))],
    o=plus(ref("b", "n"), 1),
)
HAND_JOIN = one_block(
    "C",
    [
        step("a", "N", n=plus(dollar("i"), 1)),
        step("b", "N", n=plus(dollar("i"), 10)),
        step("c", "N", n=plus(ref("a", "n"), ref("b", "n"))),
    ],
    o=ref("c", "n"),
)
HAND_SUM = {
    "name": "D",
    "params": [{"name": "x", "default": {"type": "Int", "value": 1}}, {"name": "y", "default": 2}],
    "body": {
        "steps": [step("t", "Sum", a=dollar("x"), b=dollar("y"))],
        "yield": giving("D", r=ref("t", "s")),
    },
}
SUM_PROGRAM = {
    "declarations": [
        {"type": "FacetDecl", "name": "Sum", "body": SUM_BODY},
        {"type": "FacetDecl", "name": "N"},
    ]
}
HAND_BUILT = [
    ("21.1", HAND_CHAIN, None, 5, 6, {"o": 4}),
    ("21.2", HAND_JOIN, None, 6, 6, {"o": 13}),
    ("spec 2", HAND_SUM, SUM_PROGRAM, 8, 8, {"r": 3}),
]


@pytest.mark.parametrize(
    ("workflow", "program", "steps", "iterations", "outputs"),
    [row[1:] for row in HAND_BUILT],
    ids=[row[0] for row in HAND_BUILT],
)
def test_examples_from_hand_built_programs(
    engine: Engine, workflow: Ast, program: Ast | None, steps: int, iterations: int, outputs: dict[str, Any]
) -> None:
    result = engine.run_ast(workflow, None, program)
    assert (result.status, result.error, result.outputs) == (ExecutionStatus.COMPLETED, None, outputs)
    assert (engine.store.step_count(), result.iterations) == (steps, iterations)


def test_inputs_override_defaults(engine: Engine) -> None:
    assert engine.run(SPEC_1, {"i": 100}).outputs == {"o": 142}
    assert engine.run(SPEC_2, {"y": 40}).outputs == {"r": 41}


def test_example_4_pauses_once(engine: Engine) -> None:
    result = engine.run(SPEC_4)
    assert (result.success, result.status, result.outputs) == (True, ExecutionStatus.PAUSED, {})
    assert (result.iterations, engine.store.step_count()) == (2, 8)
    (waiting,) = engine.waiting
    assert waiting.state == StepState.EVENT_TRANSMIT
    (event,), (task,) = result.pending_events, engine.tasks
    assert (event.event_type, event.payload, event.state) == (
        "example.4.CountDocuments",
        {"input": 3},
        EventState.CREATED,
    )
    assert (event.step_id, task.step_id, task.name) == (waiting.id, waiting.id, event.event_type)


def test_example_4_goes_on_after_continue(engine: Engine) -> None:
    engine.run(SPEC_4)
    result = engine.answer(output=99)
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"r": 15})
    assert (result.iterations, engine.store.step_count(), engine.store.event_count()) == (11, 11, 1)


def test_example_4_resumed_without_continue_pauses_again(engine: Engine) -> None:
    first = engine.run(SPEC_4)
    again = engine.resume()
    assert (again.success, again.status, again.iterations) == (True, ExecutionStatus.PAUSED, 1)
    assert (engine.store.step_count(), len(engine.tasks), engine.store.event_count()) == (8, 1, 1)
    assert again.pending_events == first.pending_events


def test_a_finished_run_resumed_says_the_same(engine: Engine) -> None:
    engine.run(SPEC_4)
    done = engine.answer(output=99)
    again = engine.resume()
    assert (again.status, again.outputs, again.iterations) == (done.status, done.outputs, 1)
    assert engine.store.step_count() == 11


def test_the_integer_variant_of_example_4(engine: Engine) -> None:
    inner = {
        "steps": [step("u", "CountDocuments", i=dollar("i"))],
        "yield": giving("H", o=plus(ref("u", "i"), 10)),
    }
    body = {
        "steps": [{**step("p", "H", i=dollar("a")), "body": inner}, step("q", "N", n=dollar("b"))],
        "yield": {"call": call("Sum", s=plus(ref("p", "o"), ref("q", "n")))},
    }
    kinds = [("FacetDecl", "H"), ("FacetDecl", "N"), ("EventFacetDecl", "CountDocuments")]
    declarations = [{"type": kind, "name": name} for kind, name in kinds]
    program = {"declarations": [{"type": "FacetDecl", "name": "Sum", "body": body}, *declarations]}
    main = {"steps": [step("t", "Sum", a=dollar("x"), b=dollar("y"))], "yield": giving("D", r=ref("t", "s"))}
    params = [{"name": "x", "default": 1}, {"name": "y", "default": 2}]
    assert engine.run_ast({"name": "D", "params": params, "body": main}, None, program).status == "PAUSED"
    assert engine.answer().outputs == {"r": 13}


@pytest.mark.parametrize("length", [1, 2, 5, 20])
def test_a_chain_of_statements_takes_three_iterations_more_than_its_length(
    engine: Engine, length: int
) -> None:
    steps = [step("s0", "N", n=0), *(step(f"s{i}", "N", n=ref(f"s{i - 1}", "n")) for i in range(1, length))]
    assert engine.run_ast({"name": "W", "body": {"steps": steps}}).iterations == length + 3
