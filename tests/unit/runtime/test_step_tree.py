"""Which steps a run has, how they hang together, and what reaches the outputs."""

from __future__ import annotations

import pytest
from engine_bench import Engine
from runtime_programs import NUMBER

from afl.runtime.types import ObjectType

NESTED = (
    NUMBER
    + """
facet Twice(a: Long) => (s: Long) andThen {
    p = N(n = $.a)
    yield Twice(s = p.n * 2)
}
workflow W(i: Long = 3) => (o: Long) andThen {
    t = Twice(a = $.i)
    yield W(o = t.s)
}
"""
)


def test_the_root(engine: Engine) -> None:
    engine.run(NESTED)
    root = engine.store.get_workflow_root(engine.run_id)
    assert root is not None
    assert (root.object_type, root.facet_name) == (ObjectType.WORKFLOW, "W")
    assert (root.container_id, root.root_id, root.block_id, root.statement_id) == (None, None, None, None)
    assert (root.attributes.get_param("i"), root.attributes.get_return("o")) == (3, 6)


def test_a_block_belongs_to_its_owner(engine: Engine) -> None:
    engine.run(NESTED)
    owner = engine.step("t")
    (block,) = engine.store.get_blocks_by_step(owner.id)
    assert (block.object_type, block.container_type) == (ObjectType.AND_THEN, ObjectType.VARIABLE_ASSIGNMENT)
    assert (block.container_id, block.block_id, block.statement_id) == (owner.id, None, None)
    assert block.root_id == engine.run_id


def test_a_statement_stands_in_its_block(engine: Engine) -> None:
    engine.run(NESTED)
    owner = engine.step("t")
    (block,) = engine.store.get_blocks_by_step(owner.id)
    inner = engine.step("p")
    assert (inner.block_id, inner.container_id, inner.root_id) == (block.id, owner.id, engine.run_id)
    assert inner.container_type is None
    assert inner.statement_id is not None
    assert engine.store.step_exists(inner.statement_id, block.id)
    kinds = {each.object_type for each in engine.store.get_steps_by_block(block.id)}
    assert kinds == {ObjectType.VARIABLE_ASSIGNMENT, ObjectType.YIELD_ASSIGNMENT}


def test_dollar_in_a_nested_block_is_the_owner(engine: Engine) -> None:
    result = engine.run(NESTED, {"i": 5})
    assert engine.step("p").attributes.get_param("n") == 5
    assert result.outputs == {"o": 10}


def test_returns_are_read_before_params(engine: Engine) -> None:
    source = (
        NUMBER
        + """
facet F(v: Long) => (v: Long) andThen { yield F(v = $.v + 100) }
workflow W() => (o: Long) andThen {
    a = F(v = 1)
    yield W(o = a.v)
}
"""
    )
    assert engine.run(source).outputs == {"o": 101}


def test_statements_without_references_all_start_at_once(engine: Engine) -> None:
    source = "event facet E(n: Long) => (m: Long)\nworkflow W() andThen {\n"
    engine.run(source + "\n".join(f"s{i} = E(n = {i})" for i in range(20)) + "\n}")
    assert len(engine.waiting) == 20


def test_two_yields_reach_the_outputs(engine: Engine) -> None:
    source = (
        NUMBER
        + """
facet M(x: Long) => (y: Long)
workflow W() => (o: Long) with M(x = 1) andThen {
    a = N(n = 1)
    yield W(o = a.n)
    yield M(y = 2)
}
"""
    )
    result = engine.run(source)
    assert result.outputs["o"] == 1
    root = engine.store.get_workflow_root(engine.run_id)
    assert root is not None
    assert root.attributes.get_return("y") == 2


def test_an_event_facet_with_a_body_pauses_first(engine: Engine) -> None:
    source = (
        NUMBER
        + """
event facet Ask(i: Long) => (o: Long, p: Long = 0) andThen {
    a = N(n = $.o + $.i)
    yield Ask(p = a.n)
}
workflow W() => (r: Long) andThen {
    q = Ask(i = 1)
    yield W(r = q.p)
}
"""
    )
    assert engine.run(source).status == "PAUSED"
    assert engine.store.get_blocks_by_step(engine.step("q").id) == []
    assert engine.answer(o=10).outputs == {"r": 11}


@pytest.mark.parametrize("given", [None, {"i": None}])
def test_null_is_a_value(engine: Engine, given: dict[str, None] | None) -> None:
    source = (
        NUMBER
        + """
workflow W(i: Long = null) => (o: Long, p: String) andThen {
    a = N(n = $.i)
    yield W(o = a.n, p = "<" ++ a.n ++ ">")
}
"""
    )
    result = engine.run(source, given)
    assert result.outputs == {"o": None, "p": "<>"}


def test_a_null_result_does_not_fall_back_to_the_param(engine: Engine) -> None:
    engine.run(
        """
event facet Ask(v: Long) => (v: Long)
workflow W() => (r: Long) andThen {
    a = Ask(v = 1)
    yield W(r = a.v)
}
"""
    )
    assert engine.answer(v=None).outputs == {"r": None}


def test_compiled_defaults_implicits_and_mixins_take_effect(engine: Engine) -> None:
    source = """
facet Base(n: Long, m: Long = 5) => (r: Long) andThen { yield Base(r = $.n + $.m) }
facet Extra(q: Long)
implicit base = Base(n = 100)
workflow W() => (o: Long, q: Long) andThen {
    a = Base() with Extra(q = 9)
    yield W(o = a.r, q = a.q)
}
"""
    result = engine.run(source)
    assert (result.error, result.outputs) == (None, {"o": 105, "q": 9})


@pytest.mark.parametrize("value", ["[a, b][1].n", "(false ? a : b).n", 'first([b])["n"]', "b.n"])
def test_a_value_of_a_step_that_an_expression_chooses(engine: Engine, value: str) -> None:
    source = f"{NUMBER} workflow W() => (o: Long) andThen {{ a = N(1) b = N(2) yield W(o = {value}) }}"
    result = engine.run(source)
    assert (result.error, result.outputs) == (None, {"o": 2})


def test_foreach_collects_in_element_order(engine: Engine) -> None:
    source = (
        NUMBER
        + """
workflow W(xs: [Long]) => (ys: [Long]) andThen foreach x in $.xs {
    a = N(n = x * 2)
    yield W(ys = [a.n])
}
"""
    )
    assert engine.run(source, {"xs": [3, 1, 2]}).outputs == {"ys": [6, 2, 4]}
