"""`with Run(...)` makes the workflow that is called a run of its own; where it cannot, that is an error."""

from __future__ import annotations

import pytest

from afl.language import compile_source, parse, validate
from afl.language.diagnostics import Diagnostic
from afl.language.formatter import format_source

LIBRARY = """event facet Ask(q: Long) => (answer: Long)
facet Plain(q: Long)
schema Shape { q: Long }
workflow Sub(q: Long) => (answer: Long) andThen { a = Ask($.q) yield Sub(answer = a.answer) }
"""


def findings(text: str) -> list[Diagnostic]:
    result = validate(parse(LIBRARY + text))
    return result.errors + result.warnings


def called(call: str, then: str = "") -> str:
    return f"workflow W(n: Long, s: String, b: Boolean) => (m: Long) andThen {{ a = {call} {then} yield W(m = 1) }}"


def rules(text: str) -> list[str]:
    return [one.rule_id for one in findings(text)]


@pytest.mark.parametrize(
    "run",
    [
        "Run()",
        'Run("order-7")',
        'Run(id = "order-" ++ $.n, onParentClose = "detach", taskList = $.s, wait = false)',
        "Run(id = $.s, onParentClose = $.s, wait = true)",
        'sys.Run(onParentClose = "cancel")',
        "Run() with Timeout(minutes = 5)",
    ],
)
def test_a_call_of_a_workflow_may_be_a_run(run: str) -> None:
    assert findings(called(f"Sub(1) with {run}")) == []


@pytest.mark.parametrize(("target", "kind"), [("Ask", "event facet"), ("Plain", "facet")])
def test_nothing_but_a_workflow_is_a_run(target: str, kind: str) -> None:
    (found,) = findings(called(f"{target}(1) with Run()"))
    assert found.rule_id == "RUN_NEEDS_WORKFLOW"
    assert found.message == f"'Run' makes a workflow a run of its own; '{target}' is a {kind}"
    assert found.suggested_fix == f"make '{target}' a workflow, or leave out 'with Run(...)'"
    assert found.column is not None


@pytest.mark.parametrize(
    "declared", ["event E() with Run()", "facet F() with sys.Run()", "workflow F() with Run() andThen { }"]
)
def test_it_belongs_to_a_call(declared: str) -> None:
    assert rules(declared) == ["RUN_NEEDS_WORKFLOW"]


def test_it_has_no_effect_in_an_implicit() -> None:
    assert rules("implicit i = Sub(q = 1) with Run()") == ["POLICY_NO_EFFECT"]


def test_a_schema_takes_no_mixin() -> None:
    assert rules(called("Shape(1) with Run()")) == ["SCHEMA_INSTANTIATION_NO_MIXINS"]


@pytest.mark.parametrize(
    "policy", ["Retry(3)", "Priority(1)", 'TaskList("x")', 'Concurrency("k", limit = 1)', 'Human("x")']
)
def test_of_the_policies_only_a_timeout_applies_to_a_run(policy: str) -> None:
    assert rules(called(f"Sub(1) with Run() with {policy}")) == ["POLICY_NO_EFFECT"]
    assert rules(called("Sub(1) with Timeout(ms = 1)")) == ["POLICY_NO_EFFECT"]


@pytest.mark.parametrize("closing", ["stop", ""])
def test_what_becomes_of_it_is_one_of_two_words(closing: str) -> None:
    (found,) = findings(called(f'Sub(1) with Run(onParentClose = "{closing}")'))
    assert found.rule_id == "POLICY_VALUE"
    assert found.message == f"'onParentClose' of policy 'Run' is {closing!r}; expected 'cancel' or 'detach'"


def test_whether_it_is_awaited_is_written_out() -> None:
    (found,) = findings(called("Sub(1) with Run(wait = $.b)"))
    assert found.rule_id == "POLICY_VALUE"
    assert found.message == "'wait' of policy 'Run' is computed; expected true or false"


@pytest.mark.parametrize(
    "use",
    ["b = Plain(q = a.answer)", "sys.log(x = a.answer)", "b = Plain(1) andThen { c = Plain(a.answer) }"],
)
def test_a_run_that_is_not_awaited_has_no_returns(use: str) -> None:
    (found,) = findings(called("Sub(1) with Run(wait = false)", use))
    assert found.rule_id == "CHILD_NOT_AWAITED"
    assert found.message == "Step 'a' does not wait for its run, so 'a.answer' has no value here"
    assert findings(called("Sub(1) with Run(wait = true)", use)) == []


def test_its_parameters_are_there() -> None:
    assert findings(called("Sub(1) with Run(wait = false)", "b = Plain(q = a.q)")) == []


def test_in_its_own_body_there_are_no_returns_either() -> None:
    text = called("Sub(1) with Run(wait = false) andThen { b = Plain($.answer) }")
    assert len(rules(text)) == 1
    assert findings(text.replace("false", "true")) == []


def test_a_facet_of_ones_own_is_no_run() -> None:
    assert findings("facet Run(id: String)\n" + called('Plain(1) with Run("x")')) == []


def test_it_is_formatted_and_compiled_as_any_mixin() -> None:
    text = LIBRARY + called('Sub(q = 1) with Run(id = "x", wait = false)')
    once = format_source(text)
    assert format_source(once) == once
    assert 'with Run(id = "x", wait = false)' in once
    step = compile_source(text).program["workflows"][1]["body"]["steps"][0]
    assert [mixin["target"] for mixin in step["call"]["mixins"]] == ["Run"]
