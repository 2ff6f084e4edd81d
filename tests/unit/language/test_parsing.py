"""Source text to AST: every construct, names that look like keywords, literals, places."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest

from afl.language import AFLParser, ParseError, SourceRegistry, parse
from afl.language.ast.blocks import AndThenBlock, PromptBlock, StepStmt, SysAssertStmt, SysLogStmt
from afl.language.ast.declarations import ArrayType, Program, TypeRef
from afl.language.ast.expressions import (
    ArrayLiteral,
    BinaryExpr,
    ConcatExpr,
    Expression,
    IndexExpr,
    Literal,
    MapEntry,
    MapLiteral,
    NamedArg,
    Reference,
    UnaryExpr,
)
from afl.language.source import CompilerInput, FileOrigin, SourceEntry


def value(text: str) -> Expression:
    """The AST of one expression."""
    default = parse(f"facet F(a: Json = {text})").facets[0].sig.params[0].default
    assert default is not None
    return default


def block(text: str) -> AndThenBlock:
    body = parse(f"workflow W() andThen {{ {text} }}").workflows[0].body
    assert isinstance(body, AndThenBlock)
    return body


def ref(text: str) -> Reference:
    return Reference(text.removeprefix("$.").split("."), text.startswith("$."))


def test_an_empty_text_is_an_empty_program() -> None:
    assert parse("") == parse(" \n// nothing\n/* at all */") == Program()


def test_every_kind_of_declaration_finds_its_list() -> None:
    program = parse(
        """namespace a.b { uses c; use d facet F() event facet E() event X() workflow W()
             implicit i = F() schema S { } }
        facet G() event facet H() workflow V() implicit j = G() schema T { }"""
    )
    space = program.namespaces[0]
    assert (space.name, [one.name for one in space.uses]) == ("a.b", ["c", "d"])
    assert [one.sig.name for one in space.event_facets] == ["E", "X"]
    for owner, names in ((space, ["F", "W", "i", "S"]), (program, ["G", "V", "j", "T"])):
        found = [owner.facets[0].sig, owner.workflows[0].sig, owner.implicits[0], owner.schemas[0]]
        assert [one.name for one in found] == names
    assert program.event_facets[0].sig.name == "H"


def test_a_namespace_segment_may_begin_with_a_digit() -> None:
    program = parse("namespace example.4 { event Count() } workflow W() andThen { a = example.4.Count() }")
    assert program.namespaces[0].name == "example.4"
    body = program.workflows[0].body
    assert isinstance(body, AndThenBlock)
    assert isinstance(body.block.steps[0], StepStmt)
    assert body.block.steps[0].call.name == "example.4.Count"


def test_a_signature_has_parameters_returns_and_mixins() -> None:
    sig = (
        parse('facet F(a: Int, b: [[x.Y]] = null,) => (c: Long = 1,) with M(k = "v") as m with N(3)')
        .facets[0]
        .sig
    )
    assert [one.name for one in sig.params] == ["a", "b"]
    assert sig.params[1].type == ArrayType(ArrayType(TypeRef("x.Y")))
    assert sig.returns is not None
    assert sig.returns.params[0].default == Literal(1, "integer")
    assert [(one.name, one.alias) for one in sig.mixins] == [("M", "m"), ("N", None)]
    assert sig.mixins[1].args == [NamedArg("", Literal(3, "integer"))]


def test_no_return_clause_differs_from_an_empty_one() -> None:
    assert parse("facet F()").facets[0].sig.returns is None
    empty = parse("facet F() => ()").facets[0].sig.returns
    assert empty is not None
    assert empty.params == []


@pytest.mark.parametrize("separator", ["\n", ", ", "; ", " ", ",\n"])
def test_schema_fields_with_or_without_commas(separator: str) -> None:
    fields = parse(f"schema S {{ a: Int{separator}b: [String]{separator}c: S }}").schemas[0].fields
    assert [one.name for one in fields] == ["a", "b", "c"]


@pytest.mark.parametrize("text", ["facet A()\nfacet B()", "facet A(); facet B();", "facet A() facet B()"])
def test_newlines_and_semicolons_carry_no_meaning(text: str) -> None:
    assert parse(text) == parse("facet A()\n\n\nfacet\nB\n(\n)\n")


def test_newlines_are_allowed_between_any_tokens() -> None:
    text = "workflow W ( a : Int = 1 ) => ( b : Int ) with M ( ) andThen { s = F ( x = $.a ++ 1 )"
    text += " yield W ( b = s . n ) }"
    assert parse(text.replace(" ", "\n")) == parse(text)


# ---- keywords are words, and only where they are needed -----------------------------------------------------

KEYWORDS = [
    "namespace",
    "uses",
    "use",
    "facet",
    "event",
    "workflow",
    "implicit",
    "with",
    "as",
    "andThen",
    "yield",
    "foreach",
    "repeat",
    "limit",
    "collect",
    "until",
    "for",
    "if",
    "in",
    "schema",
    "when",
    "case",
    "catch",
    "prompt",
    "script",
    "not",
    "contains",
    "startsWith",
    "endsWith",
    "system",
    "template",
    "model",
    "sys",
]


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_keyword_may_name_a_parameter_a_step_and_an_argument(word: str) -> None:
    body = block(f"{word} = F({word} = {word}.{word}) next = G(a = $.{word})")
    first, second = body.block.steps
    assert isinstance(first, StepStmt)
    assert isinstance(second, StepStmt)
    assert (first.name, first.call.args[0].name) == (word, word)
    assert first.call.args[0].value == Reference([word, word], False)
    sig = parse(f"facet F({word}: Int) => ({word}: Int) schema S {{ {word}: Int }}").facets[0].sig
    assert sig.params[0].name == word


@pytest.mark.parametrize(
    "name", ["trueish", "falsey", "nullable", "IntList", "Stringy", "usesx", "facets", "inner"]
)
def test_names_that_begin_like_a_keyword_are_names(name: str) -> None:
    assert value(f"{name}.x") == Reference([name, "x"], False)
    assert parse(f"facet F(a: {name})").facets[0].sig.params[0].type == TypeRef(name)


def test_a_keyword_is_a_whole_word() -> None:
    with pytest.raises(ParseError):
        parse("namespace a { usesb.c }")
    with pytest.raises(ParseError):
        parse("facetF()")


# ---- values -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('"a"', "a"),
        (r'"\n\t\"\\"', '\n\t"\\'),
        (r'"\x41\u00e9"', "Aé"),
        (r'"\q\r"', r"\q\r"),
        ('"é 漢字 🙂"', "é 漢字 🙂"),
        (r'"\ud83d\ude42"', "🙂"),
        ('"two\nlines"', "two\nlines"),
        ('"// no comment"', "// no comment"),
    ],
)
def test_strings_are_decoded(text: str, expected: str) -> None:
    assert value(text) == Literal(expected, "string")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("007", Literal(7, "integer")),
        ("1.5e-3", Literal(0.0015, "double")),
        ("1e6", Literal(1_000_000.0, "double")),
        ("true", Literal(True, "boolean")),
        ("null", Literal(None, "null")),
        ("$.a.b", ref("$.a.b")),
        ("a . b . c", ref("a.b.c")),
        ("step", ref("step")),
        ("-1.5", UnaryExpr("-", Literal(1.5, "double"))),
        ("+ 2", Literal(2, "integer")),
        ("[1, 2,]", ArrayLiteral([Literal(1, "integer"), Literal(2, "integer")])),
        (
            '#{a: 1, "b c": x.y}',
            MapLiteral([MapEntry("a", Literal(1, "integer")), MapEntry("b c", ref("x.y"))]),
        ),
        ("a.xs[0]", IndexExpr(ref("a.xs"), Literal(0, "integer"))),
        ("$.xs[0].n", IndexExpr(IndexExpr(ref("$.xs"), Literal(0, "integer")), Literal("n", "string"))),
    ],
)
def test_values(text: str, expected: Expression) -> None:
    assert value(text) == expected


def test_concatenation_is_one_flat_node() -> None:
    assert value("a.x ++ b.x ++ c.x") == ConcatExpr([ref("a.x"), ref("b.x"), ref("c.x")])
    nested = value("(a.x ++ b.x) ++ c.x")
    assert nested == ConcatExpr([ConcatExpr([ref("a.x"), ref("b.x")]), ref("c.x")])


@pytest.mark.parametrize(
    ("text", "grouped"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a - b - c", "(a - b) - c"),
        ("a ++ b + c ++ d", "a ++ (b + c) ++ d"),
        ("a == b ++ c", "a == (b ++ c)"),
        ("a < b && c > d || e", "((a < b) && (c > d)) || e"),
        ("a || b && c", "a || (b && c)"),
        ("!a && -b < c", "(!a) && ((-b) < c)"),
        ("a not  in b", "a not in b"),
        ("-a[0]", "-(a[0])"),
        ("a contains b + c", "a contains (b + c)"),
    ],
)
def test_precedence(text: str, grouped: str) -> None:
    assert value(text) == value(grouped)


def test_operators_are_kept_by_their_spelling() -> None:
    for operator in (
        "==",
        "!=",
        ">",
        "<",
        ">=",
        "<=",
        "in",
        "not in",
        "contains",
        "startsWith",
        "endsWith",
        "%",
    ):
        assert value(f"a {operator} b") == BinaryExpr(operator, ref("a"), ref("b"))


# ---- blocks -------------------------------------------------------------------------------------------------


def test_a_block_has_statements_then_yields() -> None:
    inner = block('a = F() ; sys.log("hi", n = 1) sys.assert(a.n > 0) yield W(x = 1) with M(y = 2)').block
    assert isinstance(inner.steps[1], SysLogStmt)
    assert isinstance(inner.steps[2], SysAssertStmt)
    assert [one.call.name for one in inner.yield_stmts] == ["W", "M"]
    assert inner.yield_stmt is inner.yield_stmts[0]
    assert block("").block.yield_stmt is None


def test_a_step_may_have_mixins_bodies_and_a_catch() -> None:
    statement = block(
        "a = F() with M() as m with N() andThen { b = G() } catch when { case _ => { } }"
    ).block.steps[0]
    assert isinstance(statement, StepStmt)
    assert [(one.name, one.alias) for one in statement.call.mixins] == [("M", "m"), ("N", None)]
    assert isinstance(statement.body, AndThenBlock)
    assert statement.catch is not None
    assert statement.catch.when is not None
    assert statement.catch.when.cases[0].is_default


def test_foreach_when_and_several_bodies() -> None:
    body = parse(
        """workflow W(xs: Json) andThen foreach x in $.xs { a = F(v = x.n) }
           andThen when { case $.xs == null => { } case _ => { } } andThen { } catch { }"""
    ).workflows[0]
    assert isinstance(body.body, list)
    first, second, third = body.body
    assert first.foreach is not None
    assert (first.foreach.variable, first.foreach.iterable) == ("x", ref("$.xs"))
    assert second.when is not None
    assert [one.is_default for one in second.when.cases] == [False, True]
    assert third.block.steps == []
    assert body.catch is not None


def test_foreach_with_a_limit_and_failures_to_collect() -> None:
    source = """workflow W(limit: Json) andThen foreach limit in $.limit limit limit + 1 collect collect { }
        andThen foreach x in limit limit 2 { } andThen foreach x in collect collect limit { }"""
    workflow = parse(source).workflows[0]
    assert isinstance(workflow.body, list)
    first, second, third = (one.foreach for one in workflow.body)
    assert first is not None
    assert second is not None
    assert third is not None
    assert (first.variable, first.iterable, first.collect) == ("limit", ref("$.limit"), "collect")
    assert isinstance(first.limit, BinaryExpr)
    assert (second.iterable, second.limit, second.collect) == (ref("limit"), Literal(2, "integer"), None)
    assert (third.iterable, third.limit, third.collect) == (ref("collect"), None, "limit")


@pytest.mark.parametrize("control", ["collect a limit 2", "limit", "collect", "collect 3", "limit 2 limit 3"])
def test_foreach_with_the_parts_in_another_order(control: str) -> None:
    with pytest.raises(ParseError):
        parse(f"workflow W(xs: Json) andThen foreach x in $.xs {control} {{ }}")


def test_a_prompt_body() -> None:
    body = (
        parse('event facet E(q: String) prompt { system "s" template "t {q}" model "m" }')
        .event_facets[0]
        .body
    )
    assert body == PromptBlock("s", "t {q}", "m")


def test_doc_comments_belong_to_the_declaration_that_follows() -> None:
    program = parse(
        """/** About a. */ namespace a {
             /** Says hello.
              *  Twice.
              * @param name whom
              *   to greet
              * @return text what was said */
             // in between
             facet Hello(name: String) => (text: String)
             /** ignored, it stands before no declaration */ implicit i = Hello()
           }"""
    )
    space = program.namespaces[0]
    assert space.doc is not None
    assert space.doc.description == "About a."
    doc = space.facets[0].doc
    assert doc is not None
    assert doc.description == "Says hello.\nTwice."
    assert [(one.name, one.description) for one in doc.params] == [("name", "whom to greet")]
    assert [(one.name, one.description) for one in doc.returns] == [("text", "what was said")]


def test_a_doc_comment_elsewhere_is_a_comment() -> None:
    text = (
        "facet A(/** x */ a: Int) workflow W() /** y */ andThen { /** z */ event = A(a = 1) /** end */ } /**/"
    )
    assert parse(text) == parse(re.sub(r"/\*.*?\*/", "", text))


# ---- ids and places -----------------------------------------------------------------------------------------


def test_every_node_has_an_id_of_its_own_and_keeps_it() -> None:
    first, second = parse("facet A()"), parse("facet A()")
    ids = {first.node_id, first.facets[0].node_id, first.facets[0].sig.node_id, second.node_id}
    assert len(ids) == 4
    assert all(str(UUID(one)) == one for one in ids)
    assert first.node_id == first.node_id
    assert first == second
    assert Literal(1, "integer", node_id="mine").node_id == "mine"


def test_places_are_one_based_and_end_behind_the_last_character() -> None:
    program = AFLParser().parse("facet A()\n  workflow W() andThen {\n}", source_id="here")
    location = program.workflows[0].location
    assert location is not None
    assert (location.line, location.column, location.end_line, location.end_column) == (2, 3, 3, 2)
    assert location.source_id == "here"
    assert program.facets[0].location is not None
    assert program.facets[0].location.end_column == 10


def test_a_file_and_several_sources(tmp_path: Path) -> None:
    path = tmp_path / "a.afl"
    path.write_text('facet A(s: String = "é")', encoding="utf-8")
    location = AFLParser().parse_file(path).facets[0].location
    assert location is not None
    assert location.source_id == f"file://{path}"
    with pytest.raises(FileNotFoundError):
        AFLParser().parse_file(tmp_path / "none.afl")
    entries = [SourceEntry("facet A()", FileOrigin("a")), SourceEntry("facet B()", FileOrigin("b"), True)]
    program, registry = AFLParser().parse_sources(CompilerInput(entries[:1], entries[1:]))
    assert [one.sig.name for one in program.facets] == ["A", "B"]
    assert program.location is None
    assert isinstance(registry, SourceRegistry)
    assert registry.get("file://b") == FileOrigin("b")
