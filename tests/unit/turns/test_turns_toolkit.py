"""What an agent is offered, where its calls go, and what a turn does next."""

from __future__ import annotations

from typing import Any

import pytest

from afl.kernel.errors import InputError
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import Card
from afl.turns.resources import Tool as ToolRow
from afl.turns.tools.expected import Expected
from afl.turns.tools.local import Toolbox
from afl.turns.tools.submit import Field
from afl.turns.worker.toolkit import Call, Route, Toolkit, full_arguments, profile_of, wait_seconds
from afl.turns.worker.turn_state import CallModel, CallTools, EndWithResult, next_action

TURN = "turn_1"


def add(a: int) -> int:
    return a


def remote(name: str, **options: Any) -> ToolRow:
    schema = {"type": "object", "properties": {"q": {}, "key": {}}, "required": ["q", "key"]}
    return ToolRow("p", name, "far", schema, "subject", options=options)


def kit(expected: Expected | None = None, rows: list[ToolRow] | None = None, **profile: Any) -> Toolkit:
    data = {"name": "ada", **profile}
    return Toolkit(profile_of(data), Toolbox([add]), {row.tool_name: row for row in rows or []}, expected)


def routes(toolkit: Toolkit, *names: str) -> list[Call]:
    return toolkit.routed([{"id": f"c{n}", "name": name, "arguments": {}} for n, name in enumerate(names)])


@pytest.mark.parametrize(
    ("profile", "offered"),
    [
        ({}, ["add", "far"]),
        ({"allowed_tools": None}, ["add", "far"]),
        ({"allowed_tools": []}, []),
        ({"allowed_tools": ["far"]}, ["far"]),
        ({"allowed_tools": ["add"], "allowed_internal_tools": ["submit_result"]}, ["add", "submit_result"]),
        ({"allowed_tools": [], "must_end_with": ["submit_result"]}, ["submit_result"]),
        ({"allowed_tools": [], "must_end_with": ["far"]}, ["far"]),
        ({"allowed_tools": ["fork_join"]}, ["fork_join"]),
    ],
)
def test_what_is_offered(profile: dict[str, Any], offered: list[str]) -> None:
    toolkit = kit(rows=[remote("far")], **profile)
    assert [tool.name for tool in toolkit.offered()] == offered


def test_delegation_is_offered_with_a_policy() -> None:
    names = [tool.name for tool in kit(allowed_tools=[], delegation_policy={}).offered()]
    assert names == ["delegate_async", "ask_expert", "launch_principal", "fork_join", "provision_agent"]


def test_the_last_step_offers_the_end_alone() -> None:
    assert [tool.name for tool in kit(Expected([Field("a")])).offered(last=True)] == ["submit_result"]
    assert kit().offered(last=True) == ()
    ending = kit(rows=[remote("far")], must_end_with=["far", "submit_result"])
    assert [tool.name for tool in ending.offered(last=True)] == ["far", "submit_result"]


def test_where_calls_go() -> None:
    toolkit = kit(rows=[remote("far"), remote("add")], delegation_policy={})
    found = routes(toolkit, "add", "far", "fork_join", "nothing")
    assert [call.route for call in found] == [Route.LOCAL, Route.COMMAND, Route.BUILTIN, Route.REFUSED]
    assert found[0].after_execution == "suspend" and found[3].after_execution == "suspend"


def test_arguments_that_are_no_object_are_refused() -> None:
    (call,) = kit().routed([{"id": "c", "name": "add", "arguments": [1]}])
    assert call.route is Route.REFUSED and call.refusal is not None
    assert call.refusal.error is not None and call.refusal.error["code"] == "invalid_arguments"


def test_arguments_that_are_no_json_are_refused_wherever_the_tool_is() -> None:
    toolkit = kit(rows=[remote("far")], delegation_policy={})
    given = {"INVALID_JSON": '{"n": 1, '}
    for name in ("add", "far", "fork_join"):
        (call,) = toolkit.routed([{"id": "c", "name": name, "arguments": given}])
        assert call.route is Route.REFUSED and call.refusal is not None and call.refusal.error is not None
        assert call.refusal.error["code"] == "invalid_arguments"
        assert f"the arguments of {name} are not a JSON object" in call.refusal.error["message"]
    expected = Expected([Field("a")])
    (end,) = kit(expected).routed([{"id": "c", "name": "submit_result", "arguments": given}])
    assert end.route is Route.SUBMIT  # so that it counts as a correction
    with pytest.raises(InputError, match="the arguments of submit_result are not a JSON object"):
        expected.accept(end.arguments)


def test_one_end_alone() -> None:
    toolkit = kit(Expected([Field("a")]))
    assert [call.route for call in routes(toolkit, "submit_result")] == [Route.SUBMIT]
    twice = routes(toolkit, "submit_result", "submit_result")
    assert [call.route for call in twice] == [Route.REFUSED, Route.REFUSED]
    beside = routes(toolkit, "submit_result", "add")
    assert [call.route for call in beside] == [Route.REFUSED, Route.LOCAL]
    assert [call.route for call in routes(kit(), "submit_result")] == [Route.REFUSED]


def test_what_is_fixed_is_not_seen() -> None:
    row = remote("far", args={"fixed": {"key": "k"}, "defaults": {"lang": "en", "q": "?"}})
    toolkit = kit(rows=[row], allowed_tools=["far"])
    (seen,) = toolkit.offered()
    assert list(seen.input_schema["properties"]) == ["q"] and seen.input_schema["required"] == ["q"]
    assert full_arguments(row, {"q": "x", "key": "guess"}) == {"lang": "en", "q": "x", "key": "k"}


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({}, None),
        ({"timeout_seconds": 5}, 5.0),
        ({"suspend_timeout_seconds": 7, "timeout_seconds": 5}, 7.0),
        ({"timeout_seconds": "long"}, None),
        ({"timeout_seconds": 0}, None),
    ],
)
def test_how_long_a_tool_may_take(options: dict[str, Any], seconds: float | None) -> None:
    assert wait_seconds(remote("far", **options)) == seconds


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"name": ""},
        {"name": "a", "system_prompt_template": 1},
        {"name": "a", "allowed_tools": "all"},
        {"name": "a", "must_end_with": [1]},
        {"name": "a", "llm_config": {"max_tokens": "many"}},
        {"name": "a", "delegation_policy": "all"},
    ],
)
def test_a_profile_that_cannot_be_read(data: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        profile_of(data)


def thought(*calls: str, turn: str = TURN) -> Card:
    made = [{"id": call, "name": "add", "arguments": {}} for call in calls]
    return Card("agent.thought", contents.text("hm"), "a", agent_turn_id=turn, step_id="s1", tool_calls=made)


def result(call: str, after: str = "suspend") -> Card:
    content = contents.tool_result_content("success", after, 1)
    return Card("tool.result", content, "a", agent_turn_id=TURN, step_id="s1", tool_call_id=call)


def test_what_comes_next() -> None:
    assert next_action([], TURN) == CallModel()
    assert next_action([thought("c0", turn="turn_0")], TURN) == CallModel()
    assert next_action([thought()], TURN) == CallModel()
    both = thought("c1", "c2")
    assert next_action([both], TURN) == CallTools("s1", both.tool_calls)
    assert next_action([both, result("c1")], TURN) == CallTools("s1", both.tool_calls[1:])
    assert next_action([both, result("c2"), result("c1")], TURN) == CallModel()
    ends = next_action([both, result("c2", "terminate"), result("c1")], TURN)
    assert isinstance(ends, EndWithResult) and ends.card.tool_call_id == "c2"
    assert next_action([both, result("c2"), result("c1", "terminate"), thought()], TURN) == CallModel()
