"""Forms are made of declarations, and what is written into them becomes values or named problems."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.language import compile_source
from afl.operations.people.forms import (
    FieldKind,
    Form,
    FormError,
    FormField,
    answer_form,
    parse,
    start_form,
    value_text,
)
from afl.operations.problems import error_of, problem_of
from afl.operations.program.sources import choose_workflow
from afl.runtime.program.program import Program

SOURCE = """namespace pay {
    /** Where somebody lives. @param city the town */
    schema Address { city: String, zip: Long }
    /** Who is paid. */
    schema Payee { name: String, home: Address, ways: [String] }
    schema Chain { name: String, next: Chain }

    /** Check the bill.
        @param amount in euros
        @return approved whether it is paid
        @return payTo who gets it */
    event facet Check(amount: Double, note: String, payTo: Payee) => (
        approved: Boolean, amount: Double, payTo: Payee, due_date: String = "soon", tags: [String] = [],
        rest: Map = #{}, codes: [Long] = [1])
    event facet Sign(n: Long)
    event facet Endless(c: Chain) => (c: Chain)

    /** Pay a bill. @param amount in euros @param times how often */
    workflow Pay(amount: Double, times: Long = 2, label: String = "bill", loud: Boolean = false) andThen {
        s = Sign($.times)
    }
}
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return choose_workflow(compile_source(SOURCE, name="pay.afl"), "pay.Pay")


PAYEE = {"name": "Ada", "home": {"city": "Bonn", "zip": 53111}, "ways": ["cash"]}


@pytest.fixture
def check(program: Program) -> Form:
    return answer_form(program, "pay.Check", {"amount": 9.5, "note": "n", "payTo": PAYEE})


def shape(fields: tuple[FormField, ...]) -> list[tuple[Any, ...]]:
    return [(field.name, field.label, field.kind.value, field.type, field.required) for field in fields]


def test_a_form_of_a_return_clause(check: Form) -> None:
    assert (check.name, check.description) == ("pay.Check", "Check the bill.")
    assert shape(check.fields) == [
        ("approved", "Approved", "boolean", "Boolean", True),
        ("amount", "Amount", "number", "Double", True),
        ("payTo", "Pay to", "schema", "pay.Payee", True),
        ("due_date", "Due date", "text", "String", False),
        ("tags", "Tags", "list", "[String]", False),
        ("rest", "Rest", "map", "Map", False),
        ("codes", "Codes", "json", "[Long]", False),
    ]
    assert [field.help for field in check.fields[:3]] == ["whether it is paid", "", "who gets it"]


def test_parameters_of_the_same_name_stand_in_the_fields(check: Form) -> None:
    texts = {field.name: field.text for field in check.every_field}
    assert texts == {
        "approved": "",
        "amount": "9.5",
        "payTo.name": "Ada",
        "payTo.home.city": "Bonn",
        "payTo.home.zip": "53111",
        "payTo.ways": "cash",
        "due_date": "soon",
        "tags": "",
        "rest": "{}",
        "codes": "[1]",
    }


def test_a_schema_is_asked_for_by_its_fields(check: Form) -> None:
    payee = check.fields[2]
    assert shape(payee.fields) == [
        ("payTo.name", "Name", "text", "String", True),
        ("payTo.home", "Home", "schema", "pay.Address", True),
        ("payTo.ways", "Ways", "list", "[String]", True),
    ]
    assert payee.fields[1].fields[0].help == "the town"


def test_a_schema_without_end_is_written_as_json(program: Program) -> None:
    names = [field.name for field in answer_form(program, "pay.Endless").every_field]
    assert names == ["c.name", "c.next.name", "c.next.next.name", "c.next.next.next"]


def test_a_form_of_parameters(program: Program) -> None:
    form = start_form(program)
    assert (form.name, form.description) == ("pay.Pay", "Pay a bill.")
    assert [(f.name, f.required, f.default, f.help) for f in form.fields] == [
        ("amount", True, None, "in euros"),
        ("times", False, 2, "how often"),
        ("label", False, "bill", ""),
        ("loud", False, False, ""),
    ]
    assert parse(form, {"amount": "3", "label": ""}) == {"amount": 3, "times": 2, "loud": False}


def test_a_facet_without_returns_asks_for_nothing(program: Program) -> None:
    form = answer_form(program, "pay.Sign")
    assert form.fields == ()
    assert parse(form, {}) == {}
    assert answer_form(program, "pay.Nowhere").fields == ()


def test_what_is_written_is_read(check: Form) -> None:
    values = parse(
        check,
        {
            "approved": "yes",
            "amount": " 12 ",
            "payTo.name": "Grace",
            "payTo.home.zip": "1",
            "payTo.ways": "card\r\n\n transfer ",
            "due_date": "two\r\nlines",
            "tags": '["a", "b\\nc"]',
            "rest": '{"x": [1]}',
            "codes": "[2, 3]",
        },
    )
    assert values == {
        "approved": True,
        "amount": 12,
        "payTo": {"name": "Grace", "home": {"city": "Bonn", "zip": 1}, "ways": ["card", "transfer"]},
        "due_date": "two\nlines",
        "tags": ["a", "b\nc"],
        "rest": {"x": [1]},
        "codes": [2, 3],
    }


def test_what_was_not_touched_stays(check: Form) -> None:
    values = parse(check, {"approved": "false"})
    assert (values["approved"], values["amount"], values["payTo"]) == (False, 9.5, PAYEE)
    assert (values["due_date"], values["tags"]) == ("soon", [])


def test_a_schema_may_come_whole(check: Form) -> None:
    assert parse(check, {"approved": "1", "payTo": '{"name": "x"}'})["payTo"] == {"name": "x"}


def test_cleared_fields_are_left_to_their_default_or_missed(check: Form) -> None:
    assert "due_date" not in parse(check, {"approved": "on", "due_date": " "})
    with pytest.raises(FormError) as caught:
        parse(check, {"approved": "", "amount": "", "payTo.name": ""})
    assert caught.value.problems == {
        "approved": "is required: say yes or no",
        "amount": "is required: write a number",
        "payTo.name": "is required: write a text",
    }


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("approved", "perhaps", "expected yes or no, got 'perhaps'"),
        ("amount", "a lot", "write a number; got 'a lot'"),
        ("amount", "true", "write a number; got true"),
        ("amount", "NaN", "write a number; got 'NaN'"),
        ("payTo.home.zip", "1.5", "write a whole number; got 1.5"),
        ("payTo", "[]", "write a JSON object; got []"),
        ("tags", "[1]", "write one entry on each line, or a JSON list; got [1]"),
        ("rest", "[]", "write a JSON object; got []"),
        ("codes", "[1,", "write JSON; got '[1,'"),
        (
            "color",
            "red",
            "there is no such field; known: amount, approved, codes, due_date, payTo, payTo.home.city, ",
        ),
    ],
)
def test_each_problem_is_named_by_its_field(check: Form, name: str, text: str, problem: str) -> None:
    with pytest.raises(FormError) as caught:
        parse(check, {"approved": "yes", name: text})
    assert list(caught.value.problems) == [name]
    assert caught.value.problems[name].startswith(problem)
    assert f"pay.Check: {name}: " in str(caught.value)


def test_the_problems_travel(check: Form) -> None:
    with pytest.raises(FormError) as caught:
        parse(check, {"approved": "perhaps"})
    again = error_of(problem_of(caught.value))
    assert isinstance(again, FormError)
    assert again.problems == caught.value.problems


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r"))
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=5,
)
_VALUES = {
    FieldKind.TEXT: _TEXTS.filter(lambda text: text.strip() != ""),
    FieldKind.INTEGER: st.integers(-(2**63), 2**63),
    FieldKind.NUMBER: st.floats(allow_nan=False, allow_infinity=False),
    FieldKind.BOOLEAN: st.booleans(),
    FieldKind.LIST: st.lists(_TEXTS, min_size=1, max_size=4),
    FieldKind.MAP: st.dictionaries(_TEXTS, _JSON, max_size=3),
    FieldKind.JSON: _JSON.filter(lambda value: value is not None),
}


@given(st.data(), st.sampled_from(sorted(_VALUES)))
def test_what_stands_in_a_field_is_read_back(data: st.DataObject, kind: FieldKind) -> None:
    value = data.draw(_VALUES[kind])
    form = Form("f", "", (FormField("x", "X", kind, "Any", True),))
    assert parse(form, {"x": value_text(value, kind)}) == {"x": value}
