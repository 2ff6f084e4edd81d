"""Functions, conditional expressions and comprehensions: parsed, checked, formatted, evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from afl.language import CompileError, compile_source
from afl.language.formatter import format_source
from afl.language.functions import FUNCTIONS
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.memory_store import MemoryStore
from afl.runtime.program.functions import FUNCTIONS as IMPLEMENTED

DOCS = Path(__file__).parents[3] / "docs" / "language.md"
PEOPLE = '[#{name: "Ann", age: 30}, #{name: "Bob", age: 12}]'


def workflow(expression: str, kind: str = "Json") -> str:
    return (
        f"schema Person {{ name: String age: Int }}\nfacet Give(v: {kind})\n"
        f"workflow W(people: [Person] = {PEOPLE}, n: Long = 3, map: Map = #{{b: 2, a: 1}}) => (v: {kind}) andThen {{\n"
        f"    s = Give(v = {expression})\n    yield W(v = s.v)\n}}\n"
    )


def result_of(expression: str) -> Any:
    program = compile_source(workflow(expression)).program
    result = Evaluator(MemoryStore()).execute(program["workflows"][0], {}, program)
    assert result.status == ExecutionStatus.COMPLETED, result.error
    return result.outputs["v"]


def test_a_log_entry_shows_values_with_and_without_a_name_as_json() -> None:
    source = (
        "workflow W(a: Json) => (n: Long) andThen {\n    sys.log($.a, b = $.a)\n    sys.log(true)\n"
        '    sys.log("text")\n    yield W(n = 1)\n}\n'
    )
    program, store = compile_source(source).program, MemoryStore()
    result = Evaluator(store).execute(program["workflows"][0], {"a": [{"k": None}]}, program)
    logs = store.get_logs_by_runner(result.workflow_id)
    assert sorted(each.message for each in logs) == ['[{"k":null}] b=[{"k":null}]', "text", "true"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("len($.people)", 2),
        ('len("äö")', 2),
        ('upper("a") ++ lower("B") ++ trim(" c ")', "Abc"),
        ('split("a,b,c", ",")', ["a", "b", "c"]),
        ('join(["a", 1, true], "-")', "a-1-true"),
        ('replace("aXbX", "X", "yy")', "ayybyy"),
        ('contains([1, 2], 2) && contains("abc", "b")', True),
        ('format("{} of {}: {:.2f} {0} {{}}", 1, "two", 3)', "1 of two: 3.00 1 {}"),
        ('string([1]) ++ string(null) ++ string("x")', "[1]x"),
        ('number(" 12 ") + number("0.5")', 12.5),
        (f'number("{"0" * 5000}9007199254740993")', 9007199254740993),
        ('number("-09223372036854775807")', -9223372036854775807),
        ("range(3)", [0, 1, 2]),
        ("range(2, 8, 3)", [2, 5]),
        ("range(3, 0, -1)", [3, 2, 1]),
        ("slice([1, 2, 3, 4], 1, -1)", [2, 3]),
        ('slice("hello", -3)', "llo"),
        ("sort([3, 1, 2])", [1, 2, 3]),
        ('[p.name for p in sort($.people, "age")]', ["Bob", "Ann"]),
        ("reverse([1, 2])", [2, 1]),
        ("distinct([1, 1, true, [1], [1], 1.0])", [1, True, [1]]),
        ("distinct([2, 1, 2, #{a: [true]}, #{a: [1]}, #{a: [1.0]}])", [2, 1, {"a": [True]}, {"a": [1]}]),
        ("flatten([[1], [2, 3], []])", [1, 2, 3]),
        ("sum([1, 2.5]) + sum([])", 3.5),
        ("min([3, 1]) + max([3, 1])", 4),
        ("first([1]) + last([2, 3]) + first([], 4)", 8),
        ("sort(keys($.map))", ["a", "b"]),
        ("sum(values($.map))", 3),
        ("merge($.map, #{a: 9, c: 3})", {"b": 2, "a": 9, "c": 3}),
        ("[abs(-2), floor(1.7), ceil(1.2), round(2.567, 2)]", [2, 1, 2, 2.57]),
        ("coalesce(null, null, 5)", 5),
        ('addTime("2026-02-27", 2, "days")', "2026-03-01"),
        ('addTime("2026-11-16T23:30:00Z", 45, "minutes")', "2026-11-17T00:15:00Z"),
        ('addTime("2026-11-16T10:00:00+01:00", -1.5, "hours")', "2026-11-16T08:30:00+01:00"),
        ('timeBetween("2026-11-16T10:00:00+01:00", "2026-11-16T10:00:00Z", "minutes")', 60.0),
        ('timeBetween("2026-11-16", "2026-11-23", "weeks")', 1.0),
        ('$.n > 2 ? "many" : "few"', "many"),
        ('$.n > 5 ? "many" : $.n > 2 ? "some" : "few"', "some"),
        ("$.n > 2 ? 1 : 1 / 0", 1),
        ("[p.name for p in $.people if p.age >= 18]", ["Ann"]),
        ("[x * 2 for x in range(3)][2]", 4),
        ("[[x + y for y in [10, 20]] for x in [1, 2]]", [[11, 21], [12, 22]]),
        ("[e.key ++ e.value for e in $.map]", ["b2", "a1"]),
        ('#{a: $.n > 2 ? 1 : 2, b: len("x")}', {"a": 1, "b": 1}),
    ],
)
def test_a_value(expression: str, value: Any) -> None:
    assert result_of(expression) == value


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / 0 > 1 ? 1 : 2", "Division by zero"),
        ("first([])", "first: the list is empty, and there is no default"),
        ('sort([1, "a"])', "sort: only numbers, or only Strings, have an order; got Long, String"),
        ('sort([#{a: 1}, #{b: 1}], "a")', "sort: element 1 has no field 'a'"),
        ('split("a", "")', "split: the separator is empty"),
        (
            'join(range(1000), join(range(10000), ""))',
            "join: the result has more than 8,388,608 characters",
        ),
        ("range(1000000)", "range: a range has at most 100,000 elements, this one 1,000,000"),
        ("range(1, 5, 0)", "range: the step is 0"),
        ("min([])", "min: the list is empty"),
        ('number("x1")', "number: 'x1' is not a number"),
        ('number("inf")', "number: 'inf' is not a number"),
        ('number("1_000")', "number: '1_000' is not a number"),
        ('number("1e999")', "number: '1e999' is too large for a Double"),
        ('number("99999999999999999999")', "number: '99999999999999999999' does not fit a 64-bit integer"),
        (f'number("{"9" * 5000}")', f"number: '{'9' * 40}' does not fit a 64-bit integer; 1e20 is a Double"),
        ('format("{} {}", 1)', "format: there is no value for field 1; 1 given"),
        ('format("{x}", 1)', "format: '{' at position 0 is not a field; write '{{' for itself"),
        ('addTime("2026-11-16T10:00:00", 1, "days")', "has no zone; append Z or +01:00"),
        ('addTime("tomorrow", 1, "days")', "'tomorrow' is not an ISO time"),
        ('addTime("2026-11-16", 1, "hours")', "a date moves by days or weeks, not by hours"),
        ('addTime("2026-11-16", 1, "years")', "unit is 'years'; known are ms, seconds"),
        ('addTime("9999-12-31", 1, "days")', "the time is outside the years 1 to 9999"),
        ('[x for x in $.map["a"]]', "'x' runs over a list or a map, got Long"),
    ],
)
def test_what_fails_says_why_and_where(expression: str, message: str) -> None:
    program = compile_source(workflow(expression)).program
    result = Evaluator(MemoryStore()).execute(program["workflows"][0], {}, program)
    assert result.status == ExecutionStatus.ERROR
    assert message in str(result.error)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("lenn($.people)", "There is no function 'lenn'"),
        ("len(1)", "argument 1 of len(value) must be a String, list or map, got Int"),
        ("len()", "Wrong number of arguments, 0: the function is len(value)"),
        ("round(1.5, 1, 1)", "Wrong number of arguments, 3: the function is round(number, digits?)"),
        ("upper($.n)", "argument 1 of upper(text) must be a String, got Long"),
        ("$.n ? 1 : 2", "the condition before '?' must be a Boolean, got Long"),
        ("[p.name for p in $.people if p.age]", "the condition after 'if' must be a Boolean, got Int"),
        ("[p for p in $.n]", "'p' runs over a list or a map, got Long"),
        ("[q.name for p in $.people]", "Reference to undefined step 'q'"),
        ("[p.nam for p in $.people][0] ++ p.name", "Reference to undefined step 'p'"),
        ("a.len(1)", "A function name cannot contain dots: 'a.len'"),
    ],
)
def test_a_mistake_is_told_at_compile_time(expression: str, message: str) -> None:
    with pytest.raises(CompileError, match=None) as caught:
        compile_source(workflow(expression))
    assert message in str(caught.value)


def test_comprehensions_inside_others_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.runtime.program.expression.MOST_COMPREHENDED", 110)
    assert result_of("len([[y for y in range(10)] for x in range(10)])") == 10
    message = "at most 110 elements, those of inner ones included"
    test_what_fails_says_why_and_where("[[y for y in range(11)] for x in range(10)]", message)


def test_types_are_inferred_through_functions_and_comprehensions() -> None:
    with pytest.raises(CompileError) as caught:
        compile_source(workflow('[len(p.name) for p in $.people if p.age > 1 && p.name != ""]', "[String]"))
    assert "[Long]" in str(caught.value)
    compile_source(workflow("[len(p.name) for p in $.people]", "[Long]"))
    compile_source(workflow('$.n > 1 ? "a" : null', "String"))


def test_the_variable_of_a_comprehension_is_no_dependency() -> None:
    """A step of the same name, later in the block, is not waited for."""
    source = workflow("[s.name for s in $.people]").replace("yield", "x = Give(v = s.v)\n    yield")
    program = compile_source(source).program
    result = Evaluator(MemoryStore()).execute(program["workflows"][0], {}, program)
    assert result.outputs["v"] == ["Ann", "Bob"]


def test_names_that_were_allowed_still_are() -> None:
    compile_source(
        "facet for(if: Long) => (in: Long)\nworkflow W(for: [Long]) andThen foreach if in $.for {\n"
        "    for = for(if = if)\n    then = for(if = for.in)\n}\n"
    )


@pytest.mark.parametrize(
    ("messy", "tidy"),
    [
        ('len( $.n )>1?"a":"b"', 'len($.n) > 1 ? "a" : "b"'),
        ("[ x*2  for x in [1] if(x>1) ]", "[x * 2 for x in [1] if (x > 1)]"),
        ("contains([1],1)", "contains([1], 1)"),
        ("#{a:true?1:2,b:1}", "#{a: true ? 1 : 2, b: 1}"),
    ],
)
def test_the_layout(messy: str, tidy: str) -> None:
    assert tidy in format_source(workflow(messy))
    assert format_source(workflow(tidy)) == format_source(workflow(messy))


def test_every_function_is_implemented_and_documented() -> None:
    assert IMPLEMENTED.keys() == FUNCTIONS.keys()
    page = DOCS.read_text(encoding="utf-8")
    missing = [
        each.signature
        for each in FUNCTIONS.values()
        if f"| `{each.signature}` | {each.summary} |" not in page
    ]
    assert missing == []
