"""Delegation: who may be asked, what is asked, and how tasks that were set off together end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from afl.kernel.errors import InputError
from afl.turns.orchestration.fork_join import BatchTask, results, verdict
from afl.turns.orchestration.requests import (
    KINDS,
    MAX_TASKS,
    Assignment,
    ForkJoin,
    builtin_tool,
    checked_fork,
    policy_of,
    read_request,
)

ENDS = ["success", "failed", "canceled", "timeout", "partial"]


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        ({}, True),
        ({"target_profiles": None, "target_tags": None}, True),
        ({"target_profiles": []}, False),
        ({"target_profiles": ["Writer"]}, True),
        ({"target_profiles": ["reader"]}, False),
        ({"target_tags": ["fast", "cheap"]}, True),
        ({"target_tags": ["slow"]}, False),
        ({"target_tags": []}, False),
        ({"target_profiles": ["writer"], "target_tags": ["slow"]}, False),
    ],
)
def test_who_may_be_asked(policy: dict[str, Any], allowed: bool) -> None:
    found = policy_of({"delegation_policy": policy})
    assert found is not None
    assert (found.refusal("writer", ["fast"]) is None) == allowed


def test_without_a_policy_nothing_may_be_delegated() -> None:
    assert policy_of({}) is None


@pytest.mark.parametrize("policy", ["all", {"target_profiles": "writer"}, {"target_tags": [1]}])
def test_a_policy_that_cannot_be_read(policy: Any) -> None:
    with pytest.raises(InputError, match="delegation_policy"):
        policy_of({"delegation_policy": policy})


def assignment(ref: str, strategy: str = "new") -> dict[str, Any]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": "do it"}


def test_every_builtin_has_a_schema_of_an_object() -> None:
    for name in KINDS:
        tool = builtin_tool(name)
        assert tool.input_schema["type"] == "object" and tool.input_schema["required"]
        assert tool.input_schema["additionalProperties"] is False


def test_a_request_is_typed() -> None:
    request = read_request(ForkJoin, {"tasks": [assignment("writer")]}, "fork_join")
    assert checked_fork(request, ["ada"]).tasks == [Assignment("new", "writer", "do it")]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"tasks": [{"target_ref": "writer"}]},
        {"tasks": [assignment("writer", "borrow")]},
        {"tasks": [assignment("writer") | {"more": 1}]},
        {"tasks": [], "urgent": True},
    ],
)
def test_a_request_that_does_not_fit(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="fork_join"):
        read_request(ForkJoin, arguments, "fork_join")


@pytest.mark.parametrize(
    "arguments",
    [
        {"tasks": []},
        {"tasks": [assignment("w")] * (MAX_TASKS + 1)},
        {"tasks": [assignment("a", "reuse"), assignment("a", "reuse")]},
        {"tasks": [assignment("w")], "deadline_seconds": 0},
        {"tasks": [assignment("ada", "reuse")]},
    ],
)
def test_a_fork_that_cannot_be_done(arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="fork_join"):
        checked_fork(read_request(ForkJoin, arguments, "fork_join"), ["ada"])


def tasks(*statuses: str) -> list[BatchTask]:
    return [BatchTask(index, f"agent{index}", status) for index, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "fail_fast", "expired", "end"),
    [
        (["success", "success"], False, False, "success"),
        (["success", "dispatched"], False, False, None),
        (["success", "dispatched"], False, True, "partial"),
        (["pending", "dispatched"], False, True, "timeout"),
        (["failed", "dispatched"], True, False, "failed"),
        (["failed", "dispatched"], False, False, None),
        (["failed", "success"], False, False, "partial"),
        (["failed", "timeout"], False, False, "failed"),
        (["canceled", "timeout"], False, False, "failed"),
        (["timeout", "partial"], False, False, "timeout"),
        (["partial", "partial"], False, False, "partial"),
    ],
)
def test_how_a_batch_ends(statuses: list[str], fail_fast: bool, expired: bool, end: str | None) -> None:
    assert verdict(tasks(*statuses), fail_fast=fail_fast, expired=expired) == end


@given(st.lists(st.sampled_from(ENDS), min_size=1), st.booleans(), st.booleans())
def test_a_batch_whose_tasks_ended_has_ended(statuses: list[str], fail_fast: bool, expired: bool) -> None:
    end = verdict(tasks(*statuses), fail_fast=fail_fast, expired=expired)
    assert end is not None
    assert (end == "success") == (set(statuses) == {"success"})


@given(st.permutations(range(5)))
def test_results_are_in_the_order_of_the_tasks(order: list[int]) -> None:
    told = results([BatchTask(index, f"agent{index}", "success", summary=str(index)) for index in order])
    assert [one["task_index"] for one in told] == [0, 1, 2, 3, 4]
    assert told[3] == {"task_index": 3, "status": "success", "agent_id": "agent3", "summary": "3"}
