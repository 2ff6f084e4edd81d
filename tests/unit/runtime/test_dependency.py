"""The dependency graph of a block."""

from __future__ import annotations

import pytest
from runtime_programs import NUMBER, compiled, dollar, giving, plus, ref, step, workflow_of

from afl.kernel.errors import InputError
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.types import ObjectType, StatementId


def ids(*names: str) -> set[StatementId]:
    return {StatementId(name) for name in names}


DIAMOND = {
    "steps": [
        step("a", "N", n=dollar("i")),
        step("b", "N", n=plus(ref("a", "n"), 1)),
        step("c", "N", n={"type": "ConcatExpr", "operands": [ref("a", "n"), "x"]}),
        step("d", "N", n=[ref("b", "n"), ref("c", "n")]),
    ],
    "yield": giving("W", o=ref("d", "n")),
}


@pytest.fixture
def diamond() -> DependencyGraph:
    return DependencyGraph.from_ast(DIAMOND, {"i"})


def ready(graph: DependencyGraph, *completed: str) -> list[str]:
    return [statement.id for statement in graph.get_ready_statements(ids(*completed))]


def test_without_ids_the_name_is_the_id(diamond: DependencyGraph) -> None:
    assert {name: diamond.name_to_id[name] for name in "abcd"} == {"a": "a", "b": "b", "c": "c", "d": "d"}
    assert [statement.id for statement in diamond.get_all_statements()] == ["a", "b", "c", "d", "yield-0"]


def test_ids_of_the_program_are_kept() -> None:
    block = {
        "steps": [{**step("a", "N"), "id": "id-1"}],
        "yield": {**giving("W", o=ref("a", "n")), "id": "id-2"},
    }
    graph = DependencyGraph.from_ast(block, set())
    assert graph.name_to_id["a"] == "id-1"
    assert graph.dependencies == {"id-1": set(), "id-2": {"id-1"}}


def test_edges_come_from_references_wherever_they_stand(diamond: DependencyGraph) -> None:
    assert diamond.dependencies == {
        "a": set(),
        "b": {"a"},
        "c": {"a"},
        "d": {"b", "c"},
        "yield-0": {"d"},
    }


def test_inputs_and_unknown_steps_make_no_edge() -> None:
    block = {"steps": [step("a", "N", n=dollar("b")), step("b", "N", n=ref("elsewhere", "n"))]}
    assert DependencyGraph.from_ast(block, {"b"}).dependencies == {"a": set(), "b": set()}


def test_mixin_arguments_make_edges_too() -> None:
    mixed = step("b", "N", n=1)
    mixed["call"]["mixins"] = [{"target": "M", "args": [{"name": "q", "value": ref("a", "n")}]}]
    graph = DependencyGraph.from_ast({"steps": [step("a", "N", n=1), mixed]}, set())
    assert graph.dependencies["b"] == {"a"}


def test_readiness_follows_completion(diamond: DependencyGraph) -> None:
    assert ready(diamond) == ["a"]
    assert ready(diamond, "a") == ["b", "c"]
    assert ready(diamond, "a", "b") == ["c"]
    assert ready(diamond, "a", "b", "c") == ["d"]
    assert ready(diamond, "a", "b", "c", "d") == ["yield-0"]
    assert ready(diamond, "a", "b", "c", "d", "yield-0") == []


def test_can_create(diamond: DependencyGraph) -> None:
    assert diamond.can_create(StatementId("a"), set())
    assert not diamond.can_create(StatementId("d"), ids("b"))
    assert diamond.can_create(StatementId("d"), ids("b", "c"))


def test_topological_order(diamond: DependencyGraph) -> None:
    order = list(diamond.topological_order())
    assert sorted(order) == ["a", "b", "c", "d", "yield-0"]
    assert all(
        order.index(need) < order.index(s) for s, needs in diamond.dependencies.items() for need in needs
    )


def test_a_cycle_has_no_order() -> None:
    block = {"steps": [step("a", "N", n=ref("b", "n")), step("b", "N", n=ref("a", "n")), step("c", "N")]}
    assert DependencyGraph.from_ast(block, set()).topological_order() == ["c"]


def test_statements_by_id(diamond: DependencyGraph) -> None:
    found = diamond.get_statement(StatementId("b"))
    assert found is not None
    assert (found.name, found.facet_name, found.object_type, found.is_yield) == (
        "b",
        "N",
        ObjectType.VARIABLE_ASSIGNMENT,
        False,
    )
    assert found.args[0]["name"] == "n"
    assert diamond.get_statement(StatementId("nope")) is None


def test_yields(diamond: DependencyGraph) -> None:
    found = diamond.get_statement(StatementId("yield-0"))
    assert found is not None
    assert found.is_yield
    assert found.name == "_yield_yield-0"
    assert found.object_type == ObjectType.YIELD_ASSIGNMENT


def test_two_yields_without_ids_are_two() -> None:
    block = {"yields": [giving("W", a=1), giving("W", b=2)]}
    assert len(DependencyGraph.from_ast(block, set()).get_all_statements()) == 2


def test_yields_win_over_yield() -> None:
    block = {"yields": [giving("W", a=1), giving("W", b=2)], "yield": giving("W", c=3)}
    graph = DependencyGraph.from_ast(block, set())
    assert [statement.args[0]["name"] for statement in graph.get_all_statements()] == ["a", "b"]


@pytest.mark.parametrize("block", [{}, {"steps": []}, None])
def test_an_empty_block(block: dict[str, object] | None) -> None:
    graph = DependencyGraph.from_ast(block, set())
    assert graph.get_all_statements() == []
    assert graph.topological_order() == []


def test_facet_names_are_completed_from_the_program() -> None:
    program = {
        "declarations": [
            {"type": "Namespace", "name": "ns", "declarations": [{"type": "EventFacetDecl", "name": "Count"}]}
        ]
    }
    block = {"steps": [step("a", "Count"), step("b", "ns.Count"), step("c", "Unknown")]}
    graph = DependencyGraph.from_ast(block, set(), program)
    assert [s.facet_name for s in graph.get_all_statements()] == ["ns.Count", "ns.Count", "Unknown"]


def test_an_ambiguous_short_name_is_refused() -> None:
    facet = [{"type": "FacetDecl", "name": "F"}]
    program = {
        "declarations": [
            {"type": "Namespace", "name": "a", "declarations": facet},
            {"type": "Namespace", "name": "b", "declarations": facet},
        ]
    }
    with pytest.raises(InputError, match=r"'F' could be any of a\.F, b\.F"):
        DependencyGraph.from_ast({"steps": [step("s", "F")]}, set(), program)


def test_the_graph_of_compiled_text() -> None:
    program = compiled(
        NUMBER + "workflow W(i: Long) => (o: Long) andThen { a = N(n = $.i)\n yield W(o = a.n) }"
    )
    graph = DependencyGraph.from_ast(workflow_of(program)["body"], {"i"}, program)
    (a, result) = graph.get_all_statements()
    assert graph.dependencies == {a.id: set(), result.id: {a.id}}
