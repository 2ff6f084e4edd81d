"""`andThen repeat`: how it is written, what is wrong with it, and what the compiled program says."""

from __future__ import annotations

import pytest

from afl.language import compile_source
from afl.language.ast.blocks import StepStmt, clauses
from afl.language.ast.expressions import Literal
from afl.language.diagnostics import CompileError
from afl.language.formatter import format_source
from afl.language.parser import parse

LOOP = """event Ask(n: Long) => (m: Long)
workflow W(end: Long) => (n: Long = 0, t: String) andThen repeat last limit 10 {
    a = Ask(last.n)
    yield W(n = a.m, t = $.last.t ++ a.m)
} until last.n >= $.end"""


def errors(text: str) -> list[tuple[str, str, str | None]]:
    with pytest.raises(CompileError) as caught:
        compile_source(text)
    return [(each.rule_id, each.message, each.suggested_fix) for each in caught.value.diagnostics]


def test_the_parts_of_a_repeat() -> None:
    (clause,) = clauses(parse(LOOP).workflows[0].body)
    assert clause.repeat is not None
    assert clause.repeat.variable == "last"
    assert clause.repeat.limit == Literal(10, "integer")
    assert [type(each) for each in clause.block.steps] == [StepStmt]
    assert (clause.foreach, clause.when) == (None, None)


def test_the_compiled_program() -> None:
    body = compile_source(LOOP).program["workflows"][0]["body"]
    assert body["type"] == "AndThenBlock"
    repeat = body["repeat"]
    assert (repeat["type"], repeat["variable"]) == ("RepeatClause", "last")
    assert repeat["limit"] == {"type": "Int", "value": 10}
    assert repeat["until"]["left"] == {"type": "StepRef", "path": ["last", "n"]}
    without = compile_source(LOOP.replace(" limit 10", "")).program["workflows"][0]["body"]
    assert "limit" not in without["repeat"]


AFTER = [
    "until",
    "limit",
    "repeat",
    "in",
    "for",
    "if",
    "contains",
    "andThen",
    "catch",
    "with",
    "yield",
    "case",
]


@pytest.mark.parametrize("word", AFTER)
def test_a_step_of_any_name_may_follow_the_condition(word: str) -> None:
    text = f"""facet F(n: Long) => (m: Long)
    workflow W() => (n: Long) andThen {{
        a = F(1) andThen repeat {word} limit {word}.n {{ yield F(m = 1) }} until {word}.m == 1
        {word} = F(2)
        b = F({word}.n) andThen {{ }}
        {word}2 = F(3)
    }}"""
    steps = clauses(parse(text).workflows[0].body)[0].block.steps
    assert [each.name for each in steps if isinstance(each, StepStmt)] == ["a", word, "b", f"{word}2"]


def test_clauses_and_a_catch_may_follow_the_condition() -> None:
    text = """workflow W() => (n: Long)
    andThen repeat a { yield W(n = 1) } until a.n > 0
    andThen repeat b { yield W(n = 1) } until (b.n > 0) catch { }
    facet Next()"""
    program = parse(text)
    assert len(clauses(program.workflows[0].body)) == 2
    assert program.workflows[0].catch is not None
    assert [each.sig.name for each in program.facets] == ["Next"]


MESSY = """workflow W(end:Long)=>(n:Long=0)andThen repeat last limit 2*$.end{
a=Ask(last.n) andThen repeat x{yield Ask(1)}until true
yield W(n=a.m)}until last.n>=$.end&&!false // why
andThen repeat other { yield W(1) } until other.n==1
facet Next()
"""
TIDY = """workflow W(end: Long) => (n: Long = 0) andThen repeat last limit 2 * $.end {
    a = Ask(last.n) andThen repeat x {
        yield Ask(1)
    } until true
    yield W(n = a.m)
} until last.n >= $.end && !false  // why
andThen repeat other {
    yield W(1)
} until other.n == 1

facet Next()
"""


def test_the_layout() -> None:
    assert format_source(MESSY) == TIDY
    assert format_source(TIDY) == TIDY


def body(inner: str, returns: str = "n: Long = 0, t: String") -> str:
    return f"facet F(n: Long) => (m: Long)\nworkflow W(k: Long) => ({returns}) {inner}"


REJECTED = {
    "a limit below 1": (
        body("andThen repeat x limit 0 { yield W(n = 1) } until true"),
        "REPEAT_LIMIT",
        "The limit of a repeat is 0; expected at least 1",
    ),
    "a negative limit": (
        body("andThen repeat x limit -3 { yield W(n = 1) } until true"),
        "REPEAT_LIMIT",
        "The limit of a repeat is -3; expected at least 1",
    ),
    "a limit that is no number": (
        body('andThen repeat x limit "ten" { yield W(n = 1) } until true'),
        "REPEAT_LIMIT",
        "The limit of a repeat must be Int, got String",
    ),
    "a limit with a fraction": (
        body("andThen repeat x limit 2.5 { yield W(n = 1) } until true"),
        "REPEAT_LIMIT",
        "The limit of a repeat must be Int, got Double",
    ),
    "a limit by the variable": (
        body("andThen repeat x limit x.n { yield W(n = 1) } until true"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'x'",
    ),
    "a condition that is no Boolean": (
        body("andThen repeat x { yield W(n = 1) } until x.n"),
        "REPEAT_UNTIL_NOT_BOOLEAN",
        "The condition after 'until' must be Boolean, got Long",
    ),
    "no yield": (
        body("andThen repeat x { a = F(1) } until x.n > 1"),
        "REPEAT_NO_YIELD",
        "The block yields nothing to 'W', so 'until' would never change",
    ),
    "a yield of nothing": (
        body("andThen repeat x { yield W() } until x.n > 1"),
        "REPEAT_NO_YIELD",
        "The block yields nothing to 'W', so 'until' would never change",
    ),
    "a yield to another owner only": (
        body("andThen { a = F(1) andThen repeat x { yield W(n = 1) } until x.m > 1 }"),
        "YIELD_INVALID_TARGET",
        "Invalid yield target 'W': must be the containing facet or one of its mixins. Valid targets are: ['F']",
    ),
    "a return that is not there": (
        body("andThen repeat x { yield W(n = x.nn) } until true"),
        "REF_NO_ATTRIBUTES",
        "Invalid reference 'x.nn': the return clause of 'W' has no attribute 'nn'",
    ),
    "a parameter is no return": (
        body("andThen repeat x { yield W(n = 1) } until x.k > 1"),
        "REF_NO_ATTRIBUTES",
        "Invalid reference 'x.k': the return clause of 'W' has no attribute 'k'",
    ),
    "a value of another type": (
        body("andThen repeat x { yield W(t = 1, n = x.t) } until true"),
        "YIELD_TYPE",
        "Return 'n' of 'W' must be Long, got String",
    ),
    "a step of the block in the condition": (
        body("andThen repeat x { a = F(1) yield W(n = a.m) } until a.m > 1"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'a'",
    ),
    "calling itself": (
        body("andThen repeat x { a = W(1) yield W(n = 1) } until true"),
        "RECURSION_UNCONDITIONAL",
        "'W' calls itself unconditionally in step 'a'",
    ),
    "no condition": (
        body("andThen repeat x { yield W(n = 1) }"),
        "SYNTAX_UNEXPECTED",
        "Expected 'until', found the end of the text",
    ),
    "no variable": (
        body("andThen repeat { yield W(n = 1) } until true"),
        "SYNTAX_UNEXPECTED",
        "Expected a variable name, found '{'",
    ),
}


@pytest.mark.parametrize(("text", "rule", "message"), REJECTED.values(), ids=REJECTED.keys())
def test_what_is_wrong_is_told(text: str, rule: str, message: str) -> None:
    assert (rule, message) in [found[:2] for found in errors(text)]


HINTS = {
    "a step of the block in the condition": "'until' sees no steps of the block: yield the value, and read it from 'x'",
    "no yield": "end it with 'yield W(...)'",
    "a return that is not there": "did you mean 'n'?",
}


@pytest.mark.parametrize("name", HINTS)
def test_hints(name: str) -> None:
    text, rule, _ = REJECTED[name]
    assert [fix for found, _, fix in errors(text) if found == rule] == [HINTS[name]]


ACCEPTED = {
    "a yield further in": body("andThen repeat x { a = F(1) andThen { yield W(n = 1) } } until x.n > 1"),
    "a yield in a catch": body("andThen repeat x { a = F(1) catch { yield W(n = 1) } } until x.n > 1"),
    "a yield in a case": body(
        "andThen repeat x { a = F(1) andThen when { case true => { yield W(n = 1) } case _ => { } } } until x.n > 1"
    ),
    "the variable as a value": "facet M(m: Map)\n"
    + body("andThen repeat x { a = M(x) yield W(n = 1) } until $.x.n > 1"),
    "a computed limit": body("andThen repeat x limit $.k * 2 { yield W(n = 1) } until x.n == $.k"),
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_right_is_accepted(text: str) -> None:
    assert compile_source(text).program["workflows"]
