"""Syntax errors in words, at the right place, all of them in one run."""

from __future__ import annotations

import pytest

from afl.language import AFLParser, ParseError, parse
from afl.language.source import CompilerInput, FileOrigin, SourceEntry


def refused(text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("facet A(", "Expected a parameter name or ')', found the end of the text", 1, 9),
        ("facet (", "Expected a facet name, found '('", 1, 7),
        ("facet A(x Int)", "Expected ':', found 'Int'", 1, 11),
        ("facet A(x: )", "Expected a type, found ')'", 1, 12),
        ("workflow W() andThen { = F() }", "Expected a step name, 'yield' or '}', found '='", 1, 24),
        ("workflow W()\nandThen { a = }", "Expected a facet name, found '}'", 2, 15),
        ("workflow W() andThen { a = F(x = ) }", "Expected a value, found ')'", 1, 34),
        ("workflow W() andThen { a = F(, ) }", "Expected an argument or ')', found ','", 1, 30),
        ("workflow W() andThen { a = F(x = 1 y = 2) }", "Expected ')', ',' or an operator, found 'y'", 1, 36),
        ("workflow W() andThen { yield W() a = F() }", "A step cannot follow a yield, found 'a'", 1, 34),
        ("event (", "Expected 'facet' or an event facet name, found '('", 1, 7),
        ("schema S { a Int }", "Expected ':', found 'Int'", 1, 14),
        ("schema S { 1 }", "Expected a field name or '}', found '1'", 1, 12),
        ("uses a.b", "'uses' stands inside a namespace", 1, 1),
        ("namespace a { namespace b { } }", "Namespaces do not nest", 1, 15),
        ("facet F() script { }", "There are no script blocks: code lives in agents", 1, 11),
        ("facet F() andThen script { }", "There are no script blocks: code lives in agents", 1, 19),
        ("facet F(a: String = 'x')", 'Strings are written in double quotes, found "\'"', 1, 21),
        ('facet F(a: String = "x)', "Unterminated string", 1, 21),
        ("facet F(a: Int = $)", "'$' needs a parameter name", 1, 18),
        ("/* never closed", "Unterminated comment", 1, 1),
        ("facet F() §", "Expected a declaration", 1, 11),
        ("hello", "Expected a declaration or the end of the text, found 'hello'", 1, 1),
        ("event facet E() prompt { nice 1 }", "Expected a string, found '1'", 1, 31),
        ("facet F(a: Json = #{1})", "Expected a map key, '}' or a string, found '1'", 1, 21),
        ("facet a.F()", "A declared name cannot contain dots: 'a.F'", 1, 7),
        ("workflow W() andThen { a.b = F() }", "A step name cannot contain dots: 'a.b'", 1, 24),
        ("workflow W() andThen { F(x = 1) }", "The call of 'F' has no step name", 1, 24),
        ("workflow W() andThen { sys.assert(a = true) }", "sys.assert takes one condition", 1, 24),
        ("facet F(a: Json = 1 < 2 < 3)", "Comparisons do not chain: a second one at '<'", 1, 25),
        ("facet F(a: Long = 9223372036854775808)", "Integer literal is too large", 1, 19),
        ("facet F(a: Double = 1.0e999)", "Number literal is too large for a Double", 1, 21),
        ('facet F(a: String = "\\ud83d")', "A \\u escape is half of a surrogate pair", 1, 21),
        ("facet F(a: Json = x.0)", "'0' is not an attribute name in 'x.0'", 1, 19),
        ('event facet E() prompt { nice "x" }', "Unknown prompt directive 'nice'", 1, 26),
        ('event facet E() prompt { model "x" model "y" }', "Prompt directive 'model' stands twice", 1, 36),
        ("workflow W() andThen { yield W() with M() as m }", "A mixin of a yield has no alias", 1, 34),
    ],
)
def test_the_message_says_what_is_wrong_and_where(text: str, message: str, line: int, column: int) -> None:
    error = refused(text)
    assert error.message.startswith(message)
    assert (error.line, error.column) == (line, column)


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("facet F(x: Int) -> (y: Int)", "write '=>'"),
        ("workflow W() {\n}", "write 'andThen {'"),
        ("workflow W() andThen { a = F(x: 1) }", "write 'name = value'"),
        ("# a comment\nfacet F()", "a comment begins with '//'"),
        (
            "schema S { a: Int = 1 }",
            "a field of a schema has no default: give it wherever the schema is made",
        ),
        ("schema S { a: Int? }", "every type accepts null: leave this out"),
        ("facet F(a: Map<String, Int>)", "a list of String is written '[String]', a map 'Map'"),
        ("facet F(a: String[])", "a list of String is written '[String]', a map 'Map'"),
        ("facet F(a: String = “x”)", 'write "text" instead of “text”'),
        ("facet F(a: Double = .5)", "write a digit before the point: '0.5'"),
        (
            "import a.b\nfacet F()",
            "name the other file with --library; 'uses name' stands inside a namespace",
        ),
        ("workflow W() andThen when { case 1 > 0 => { } else { } }", "write 'case _ => {'"),
        (
            "workflow W() andThen { if $.a { } }",
            "write 'andThen when { case condition => { ... } case _ => { ... } }'",
        ),
        ("workflow W() andThen { for x in $.xs { } }", "write 'andThen foreach x in list { ... }'"),
        ("workflow W() andThen { let a = F() }", "write 'step_name = Facet(...)'"),
        (
            "workflow W() andThen { a = 1 + 2 }",
            "a step calls a facet or makes a schema: write a value where it is used",
        ),
        ("facet F(a: Json = {b: 1})", "a map is written '#{name: value}'"),
        ("facet F(a: Json = #{b = 1})", "write 'name: value'"),
        ("workflow W() andThen when { case $.x = 1 => { } case _ => { } }", "write '=='"),
        ("facet F(a: Json = true and false)", "write '&&'"),
        ("facet F(a: Json = not true)", "write '!' in front of what is negated"),
        ("facet F(a: Json = true android)", None),
        ("implicit a = 5", None),
        ("schema S { a Int }", None),
    ],
)
def test_what_other_languages_have_is_told_what_to_write(text: str, fix: str | None) -> None:
    assert refused(text).diagnostics[0].suggested_fix == fix


def test_all_broken_declarations_are_reported_and_nothing_else() -> None:
    error = refused(
        """namespace a {
             facet A(;
             facet B(x: Int)
             facet C(x: Int y)
           }
           namespace b { workflow W() andThen { s = F(1 } }
           facet D(x = 3)
           workflow V() andThen {
             a = F(x = facet)
             b =
           }
           facet E()
           schema S { a Int }"""
    )
    assert [one.line for one in error.diagnostics] == [2, 4, 6, 7, 11, 13]
    assert all(one.severity == "error" and one.rule_id.startswith("SYNTAX") for one in error.diagnostics)


def test_a_missing_brace_is_reported_once() -> None:
    error = refused(
        "namespace a {\n workflow W() andThen {\n a = F()\n facet B()\n}\nworkflow V() andThen { }"
    )
    assert [one.line for one in error.diagnostics] == [4]


def test_the_text_has_source_and_position_once() -> None:
    entry = SourceEntry("facet A()\nfacet (", FileOrigin("dir/a.afl"))
    with pytest.raises(ParseError) as caught:
        AFLParser().parse_sources(CompilerInput([entry]))
    assert str(caught.value) == ("[file://dir/a.afl] Expected a facet name, found '(' at line 2, column 7")
    assert caught.value.source_id == "file://dir/a.afl"


def test_an_error_made_by_hand_keeps_its_attributes() -> None:
    error = ParseError("Bad", 3, 4, "x")
    assert (error.line, error.column, error.source_id) == (3, 4, "x")
    assert str(error) == "[x] Bad at line 3, column 4"
    assert str(ParseError("Bad")) == "Bad"


def test_rendering_shows_the_line_with_a_caret_and_a_way_out() -> None:
    error = refused("facet A()\n\tfacet F() script { }")
    assert error.render().split("\n") == [
        "error[SYNTAX_UNEXPECTED] <string>:2:12: There are no script blocks: code lives in agents",
        "2 | \tfacet F() script { }",
        "  | \t          ^^^^^^",
        "  hint: declare an event facet and handle it in an agent",
    ]
