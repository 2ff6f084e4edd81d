"""The index over a compiled program."""

from __future__ import annotations

import json

import pytest
from runtime_programs import ASK_TWICE, NUMBER, compiled, giving, step

from afl.kernel.errors import InputError
from afl.runtime.program.declaration import constant_context
from afl.runtime.program.program import Program

SOURCE = """
namespace lib.text {
    facet Trim(s: String) => (t: String)
    schema Pair { a: Long, b: Long }
}
namespace app {
    uses lib.text
    facet Trim(s: String) => (t: String)
    event facet Ask(q: String, n: Long = 2) => (a: String)
    workflow Main(s: String) => (t: String) andThen {
        x = Trim(s = $.s)
        yield Main(t = x.t)
    }
}
"""


@pytest.fixture
def program() -> Program:
    return Program({"program": compiled(SOURCE)})


def test_declarations_by_full_name(program: Program) -> None:
    names = ["app.Ask", "app.Main", "app.Trim", "lib.text.Pair", "lib.text.Trim"]
    assert sorted(name for name in program.declarations if not name.startswith("sys.")) == names
    assert program.workflows() == ["app.Main"]
    assert program.is_known
    assert not Program({}).is_known


@pytest.mark.parametrize(
    ("name", "namespace", "full"),
    [
        ("app.Ask", "", "app.Ask"),
        ("Ask", "", "app.Ask"),
        ("Trim", "app", "app.Trim"),
        ("Trim", "lib.text", "lib.text.Trim"),
        ("Pair", "app", "lib.text.Pair"),
        ("Unknown", "app", "Unknown"),
        ("text.Trim", "", "text.Trim"),
    ],
)
def test_names_as_seen_from_a_namespace(program: Program, name: str, namespace: str, full: str) -> None:
    assert program.full_name(name, namespace) == full


def test_an_ambiguous_name_says_what_it_could_be(program: Program) -> None:
    with pytest.raises(
        InputError, match=r"'Trim' could be any of app\.Trim, lib\.text\.Trim; use the full name"
    ):
        program.full_name("Trim")


def test_kinds(program: Program) -> None:
    ask, pair = program.declaration("Ask"), program.declaration("lib.text.Pair")
    assert ask is not None
    assert pair is not None
    assert (ask.kind, ask.is_event, ask.is_schema) == ("EventFacetDecl", True, False)
    assert (pair.is_event, pair.is_schema) == (False, True)
    assert program.schemas == {"lib.text.Pair": {"a": "Long", "b": "Long"}}
    assert program.declaration("Nothing") is None


def test_signatures(program: Program) -> None:
    ask = program.declarations["app.Ask"]
    assert [(field.name, field.type) for field in ask.params] == [("q", "String"), ("n", "Long")]
    assert [(name, default(constant_context({}))) for name, default in ask.defaults] == [("n", 2)]
    assert ask.returns is not None
    assert [field.name for field in ask.returns] == ["a"]


def test_no_return_clause_is_not_an_empty_one() -> None:
    program = Program({"program": compiled("facet A()\nfacet B() => ()")})
    assert program.declarations["A"].returns is None
    assert program.declarations["B"].returns == ()


@pytest.mark.parametrize("name", ["app.Main", "Main", None])
def test_the_workflow_by_full_or_short_name_or_as_the_only_one(name: str | None) -> None:
    assert Program({"program": compiled(SOURCE), "workflow": name}).workflow.name == "app.Main"


def test_an_unknown_workflow_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown workflow 'app\.Mian'; did you mean 'app\.Main'\?"):
        Program({"program": compiled(SOURCE), "workflow": "app.Mian"})


def test_equal_programs_have_equal_hashes_whatever_the_order_of_their_keys() -> None:
    compiled_program = compiled(SOURCE)
    turned = dict(reversed(list(compiled_program.items())))
    assert Program({"program": compiled_program}).hash == Program({"program": turned}).hash
    assert Program({"program": compiled_program}).hash != Program({"program": compiled(ASK_TWICE)}).hash


def test_two_compilations_of_one_text_are_one_program() -> None:
    assert Program({"program": compiled(SOURCE)}).hash == Program({"program": compiled(SOURCE)}).hash


def test_a_program_survives_being_stored() -> None:
    program = Program({"program": compiled(SOURCE), "workflow": "app.Main"})
    again = Program(json.loads(program.text))
    assert again.hash == program.hash
    assert list(again.declarations) == list(program.declarations)


@pytest.mark.parametrize("key", ["declarations", "facets"])
def test_declarations_are_found_under_either_key(key: str) -> None:
    node = {"type": "FacetDecl", "name": "F"}
    inner = {"type": "EventFacetDecl", "name": "G"}
    group = "declarations" if key == "declarations" else "eventFacets"
    space = {"type": "Namespace", "name": "a.b", group: [inner]}
    spaces = {"namespaces": [space]} if key == "facets" else {}
    ast = {key: [node, *([space] if key == "declarations" else [])], **spaces}
    program = Program({"program": ast})
    assert sorted(program.declarations) == ["F", "a.b.G"]


def test_a_declaration_emitted_twice_is_one() -> None:
    node = {"type": "FacetDecl", "name": "F"}
    program = Program({"program": {"facets": [node], "declarations": [dict(node)]}})
    assert program.full_name("F") == "F"


def test_paths_lead_to_statements_and_blocks() -> None:
    workflow = {
        "name": "W",
        "body": {
            "steps": [{**step("a", "N"), "body": {"steps": [step("inner", "N")]}}],
            "yield": giving("W", o=1),
        },
    }
    program = Program({"workflow": workflow})
    found = program.place("0/a").statement
    assert found is not None
    assert found.name == "a"
    inner = program.place("0/a/0/inner").statement
    assert inner is not None
    assert inner.name == "inner"
    result = program.place("0/>0").statement
    assert result is not None
    assert result.is_yield
    block = program.place("0")
    assert block.statement is None
    assert block.graph is not None
    assert program.place("") == program.place("")
    assert program.place("").graph is None


def test_an_inline_body_wins_over_the_facets() -> None:
    source = (
        NUMBER
        + """
facet F() andThen { facets = N(n = 1) }
workflow W() andThen {
    a = F()
    b = F() andThen { inline = N(n = 2) }
}
"""
    )
    program = Program({"program": compiled(source)})
    bodies = {name: program.bodies_of(program.place(f"0/{name}").statement) for name in "ab"}
    assert list(bodies["a"][0].by_key) == ["facets"]
    assert list(bodies["b"][0].by_key) == ["inline"]


def test_all_implicits_of_a_facet_supply_arguments() -> None:
    source = "facet F(x: Long, y: Long) implicit one = F(x = 1) namespace other { implicit two = F(y = 2) }"
    program = Program({"program": compiled(source)})
    supplied = [(name, value(constant_context({}))) for name, value in program.supplied("F")]
    assert sorted(supplied) == [("x", 1), ("y", 2)]
    assert program.supplied("Other") == ()


def test_defaults_know_no_steps() -> None:
    bad = {
        "type": "FacetDecl",
        "name": "F",
        "params": [{"name": "n", "default": {"type": "StepRef", "path": ["a"]}}],
    }
    program = Program({"program": {"declarations": [bad]}})
    with pytest.raises(InputError, match="cannot refer to the step 'a'"):
        program.declarations["F"].defaults[0][1](constant_context({}))
