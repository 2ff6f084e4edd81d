"""Policies are refused where they would do nothing, and so are constants that make no sense."""

from __future__ import annotations

import pytest

from afl.language import CompileError, compile_source, parse, validate
from afl.language.diagnostics import Diagnostic, render
from afl.language.names import prelude

LIBRARY = """event facet Ask(q: Long) => (answer: Long)
facet Plain(q: Long)
workflow Sub(q: Long) andThen { a = Plain($.q) }
schema Shape { q: Long }
"""


def findings(text: str) -> list[Diagnostic]:
    result = validate(parse(LIBRARY + text))
    return result.errors + result.warnings


def with_policy(policy: str) -> str:
    return f"workflow W(n: Long, s: String) andThen {{ a = Ask(1) with {policy} }}"


USES = {
    "Retry": "Retry(3)",
    "Timeout": "Timeout(seconds = 1)",
    "Priority": "Priority(1)",
    "TaskList": 'TaskList("x")',
    "Concurrency": 'Concurrency("x", limit = 1)',
    "Rate": 'Rate("x", perMinute = 1)',
    "Agent": 'Agent("x")',
    "Fleet": 'Fleet("x")',
    "Message": 'Message("x")',
    "Human": 'Human("x")',
    "Signal": 'Signal("x")',
}


def test_every_facet_of_sys_is_a_policy_that_these_tests_know() -> None:
    assert {symbol.name for symbol in prelude() if symbol.is_policy} == {*USES, "After", "Run"}


@pytest.mark.parametrize("policy", USES)
def test_a_policy_on_an_event_facet_is_right(policy: str) -> None:
    use = USES[policy]
    assert findings(f"workflow W() andThen {{ a = Ask(1) with {use} }} event E() with {use}") == []


@pytest.mark.parametrize("policy", USES)
@pytest.mark.parametrize(("called", "kind"), [("Plain", "facet"), ("Sub", "workflow")])
def test_a_policy_on_the_call_of_anything_else_is_an_error(policy: str, called: str, kind: str) -> None:
    found = findings(f"workflow W() andThen {{ a = {called}(1) with {USES[policy]} }}")
    assert [one.rule_id for one in found] == ["POLICY_NO_EFFECT"]
    assert found[0].message == (f"'{policy}' has no effect on '{called}', which is a {kind} and has no task")
    assert found[0].suggested_fix == (
        f"move 'with {policy}(...)' to the call or the signature of an event facet"
    )


@pytest.mark.parametrize(
    "declared", ["facet F() with Retry(3)", "workflow F() with sys.Retry(3) andThen { }"]
)
def test_a_policy_in_the_signature_of_anything_else_is_an_error(declared: str) -> None:
    found = findings(declared)
    assert [one.rule_id for one in found] == ["POLICY_NO_EFFECT"]
    assert "no effect on 'F'" in found[0].message


def test_a_policy_in_an_implicit_is_an_error() -> None:
    found = findings("implicit i = Ask(q = 1) with Retry(3)")
    assert [one.rule_id for one in found] == ["POLICY_NO_EFFECT"]
    assert found[0].message == "'Retry' has no effect on implicit 'i', which supplies arguments only"


def test_a_schema_takes_no_mixin_and_that_is_all_that_is_said() -> None:
    found = findings("workflow W() andThen { a = Shape(1) with Retry(3) }")
    assert [one.rule_id for one in found] == ["SCHEMA_INSTANTIATION_NO_MIXINS"]


def test_a_facet_of_ones_own_with_that_name_is_no_policy() -> None:
    own = "facet Retry(attempts: Long)\nworkflow W() andThen { a = Plain(1) with Retry(0) }"
    assert findings(own) == []
    assert [one.rule_id for one in findings(own.replace("with Retry(0)", "with sys.Retry(3)"))] == [
        "POLICY_NO_EFFECT"
    ]


def test_a_call_of_something_unknown_has_one_error() -> None:
    found = findings("workflow W() andThen { a = Nope(1) with Retry(3) }")
    assert [one.rule_id for one in found] == ["REF_UNKNOWN_FACET"]


def test_the_caret_stands_under_the_policy() -> None:
    text = "workflow W() andThen {\n    a = Plain(1) with Retry(3)\n}"
    source = LIBRARY + text
    assert render(findings(text)[0], source).split("\n")[1:3] == [
        "6 |     a = Plain(1) with Retry(3)",
        "  |                  ^^^^^^^^^^^^^",
    ]
    with pytest.raises(CompileError, match=r"error\[POLICY_NO_EFFECT\]"):
        compile_source(source)


BAD = {
    "Retry(0)": "'attempts' of policy 'Retry' is 0; expected at least 1",
    "Retry(attempts = -2)": "'attempts' of policy 'Retry' is -2; expected at least 1",
    "Retry(3, backoff = -1)": "'backoff' of policy 'Retry' is -1; expected at least 0",
    "Retry(3, factor = 0.5)": "'factor' of policy 'Retry' is 0.5; expected at least 1",
    "Retry(3, max = -1)": "'max' of policy 'Retry' is -1; expected at least 0",
    "Timeout(-1)": "'ms' of policy 'Timeout' is -1; expected at least 0",
    "Timeout(minutes = 1, seconds = -30)": "'seconds' of policy 'Timeout' is -30; expected at least 0",
    "Timeout()": "the parts of policy 'Timeout' add up to nothing; expected at least 1 millisecond",
    "Timeout(ms = 0, hours = 0)": "the parts of policy 'Timeout' add up to nothing",
    'Concurrency("k", limit = 0)': "'limit' of policy 'Concurrency' is 0; expected at least 1",
    'Concurrency("", limit = 1)': "'key' of policy 'Concurrency' is empty",
    'TaskList("")': "'name' of policy 'TaskList' is empty",
}


@pytest.mark.parametrize(("policy", "message"), BAD.items(), ids=BAD)
def test_a_constant_out_of_range_is_an_error(policy: str, message: str) -> None:
    found = findings(with_policy(policy))
    assert [one.rule_id for one in found] == ["POLICY_VALUE"]
    assert found[0].message.startswith(message)
    assert found[0].column is not None


def test_the_caret_stands_under_the_value() -> None:
    text = with_policy("Retry(3, factor = 0.5)")
    shown = render(findings(text)[0], LIBRARY + text).split("\n")
    assert shown[2].index("^") == shown[1].index("0.5")
    assert shown[2].count("^") == 3
    assert shown[3] == "  hint: each wait is so many times as long as the one before"


@pytest.mark.parametrize(
    "policy",
    [
        "Retry(1, backoff = 0, factor = 1, max = 0)",
        "Retry(attempts = $.n)",
        "Retry(3, backoff = 0 - 1)",
        "Timeout($.n)",
        "Timeout(ms = 1)",
        "Priority(-5)",
        "Concurrency($.s, limit = $.n)",
    ],
)
def test_what_is_in_range_or_computed_is_left_to_the_run(policy: str) -> None:
    assert findings(with_policy(policy)) == []


# -- bridges: who does the work -------------------------------------------------------------------------------

BRIDGES = ("Agent", "Fleet", "Message", "Human", "Signal")


@pytest.mark.parametrize("first", BRIDGES)
@pytest.mark.parametrize("second", BRIDGES)
@pytest.mark.parametrize("place", ["workflow W() andThen {{ a = Ask(1) {} }}", "event E() {}"])
def test_a_step_is_done_in_one_place(first: str, second: str, place: str) -> None:
    found = findings(place.format(f'with {first}("x") with Retry(2) with {second}("y")'))
    assert [one.rule_id for one in found] == ["POLICY_BRIDGES"]
    assert found[0].message == f"'{second}' and '{first}' both say who does the work; it is done in one place"
    assert found[0].column is not None


@pytest.mark.parametrize("place", ["workflow W() andThen {{ b = Ask(2) a = Ask(1) {} }}", "event E() {}"])
def test_a_policy_stands_once(place: str) -> None:
    (found,) = findings(place.format("with Retry(2) with Timeout(ms = 5) with Retry(3)"))
    assert found.rule_id == "POLICY_DUPLICATE"
    assert found.message == "'Retry' stands here twice, and only the last one would count"


def test_a_step_may_wait_for_several() -> None:
    assert (
        findings("workflow W() andThen { a = Ask(1) b = Ask(2) c = Ask(3) with After(a) with After(b) }")
        == []
    )


@pytest.mark.parametrize("other", ["Concurrency", *BRIDGES])
@pytest.mark.parametrize("place", ["workflow W() andThen {{ a = Ask(1) {} }}", "event E() {}"])
def test_a_rate_is_the_only_limit_and_of_work_that_workers_do(other: str, place: str) -> None:
    for first, second in ((other, "Rate"), ("Rate", other)):
        found = findings(place.format(f"with {USES[first]} with {USES[second]}"))
        assert [one.rule_id for one in found] == ["POLICY_LIMITS"]
        assert found[0].message.startswith(f"'{second}' and '{first}'")


def test_a_rate_below_one() -> None:
    (found,) = findings(with_policy('Rate("x", perMinute = 0)'))
    assert (found.rule_id, found.message) == (
        "POLICY_VALUE",
        "'perMinute' of policy 'Rate' is 0; expected at least 1",
    )


def test_a_bridge_at_the_call_may_take_the_place_of_the_one_in_the_signature() -> None:
    text = 'event E() with Human("x") workflow W() andThen { a = E() with Agent("y") }'
    assert findings(text) == []


def test_a_facet_of_ones_own_with_the_name_of_a_bridge_is_none() -> None:
    assert findings('facet Agent(n: String) event E() with Agent("x") as one with Human("y")') == []


@pytest.mark.parametrize("bridge", BRIDGES)
def test_somebody_must_be_named(bridge: str) -> None:
    found = findings(with_policy(f'{bridge}("")'))
    assert [(one.rule_id, one.message) for one in found] == [
        ("POLICY_VALUE", f"'name' of policy '{bridge}' is empty")
    ]


@pytest.mark.parametrize("name", ["x" * 513, "a\\nb"], ids=["long", "two lines"])
def test_a_signal_has_a_name_that_can_be_delivered(name: str) -> None:
    found = findings(with_policy(f'Signal("{name}")'))
    assert [one.rule_id for one in found] == ["POLICY_VALUE"]
    assert found[0].message == "'name' of policy 'Signal' is not a valid name for a signal"
    assert found[0].suggested_fix == "expected 1 to 512 characters, no control characters among them"


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ('Human("x", escalate_to = "y", escalate_minutes = -1)', "escalate_minutes"),
        ('Message("x", priority = -1)', "priority"),
    ],
)
def test_numbers_of_bridges(use: str, name: str) -> None:
    found = findings(with_policy(use))
    assert [one.rule_id for one in found] == ["POLICY_VALUE"]
    assert f"'{name}'" in found[0].message


@pytest.mark.parametrize("given", ['escalate_to = "y"', "escalate_minutes = 5"])
def test_who_is_asked_next_and_when_belong_together(given: str) -> None:
    found = findings(with_policy(f'Human("x", {given})'))
    assert [(one.rule_id, one.message) for one in found] == [
        ("POLICY_VALUE", "'escalate_to' and 'escalate_minutes' of policy 'Human' belong together")
    ]


def test_a_policy_on_what_the_runtime_does_itself_is_an_error() -> None:
    (found,) = findings("workflow W() andThen { a = sys.Sleep(5) with Timeout(ms = 1) }")
    assert found.rule_id == "POLICY_NO_EFFECT"
    assert findings("workflow W() andThen { a = sys.Sleep(5) b = sys.Sleep(5) with After(a) }") == []
