"""The resume list, line by line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.cards import Card
from afl.turns.model import Head, InboxRow, WaitingTool
from afl.turns.statuses import HeadStatus, InboxStatus, MessageType, WaitStatus
from afl.turns.worker.messages import Report, ReportAction, decide
from afl.turns.worker.turn_state import final_result

PAYLOAD = {"status": "success", "after_execution": "suspend", "tool_result_card_id": "card_1"}
ROW = InboxRow(
    "p", "in_1", "a", "w", "public", MessageType.TOOL_RESULT, None, "call_1", "turn_1", 3, {}, PAYLOAD,
    InboxStatus.PROCESSING, 0, 0, None, None, "me", 1, None, 0, 1,
)  # fmt: skip
HEAD = Head(
    "p", "a", HeadStatus.SUSPENDED, "turn_1", "public", 3, 7, 0, 0, None, None, "b1", "b2", "b3", None, 1, 99,
    "in_0", "", 0, 0, 1, {},
)  # fmt: skip
WAIT = WaitingTool("turn_1", 3, "call_1", "step_1", "tool", WaitStatus.WAITING, None, 99, None, None)
CARD = Card(
    "tool.result",
    contents.tool_result_content("success", "suspend", 1),
    "tool.x",
    tool_call_id="call_1",
    step_id="step_1",
)
THOUGHT = Card("agent.thought", contents.text("hm"), "a", step_id="step_1", tool_calls=[{"id": "call_1"}])
GOOD = Report(ROW, HEAD, CARD, WAIT, THOUGHT)


def head(**changes: Any) -> dict[str, Any]:
    return {"head": replace(HEAD, **changes)}


def row(**changes: Any) -> dict[str, Any]:
    return {"row": replace(ROW, **changes)}


def payload(**changes: Any) -> dict[str, Any]:
    return row(payload={name: value for name, value in (PAYLOAD | changes).items() if value != "without"})


@pytest.mark.parametrize(
    ("change", "act", "reason"),
    [
        pytest.param(row(correlation_id=None), ReportAction.FAIL, "missing_tool_call_id", id="1"),
        pytest.param({"head": None}, ReportAction.DEFER, "state_not_found", id="2"),
        pytest.param(head(active_agent_turn_id="turn_2"), ReportAction.CONSUME, "another_turn", id="3 turn"),
        pytest.param(row(turn_epoch=4), ReportAction.CONSUME, "another_turn", id="3 epoch"),
        pytest.param(row(turn_epoch=2), ReportAction.APPLY, "", id="3 before a takeover"),
        pytest.param(
            head(status=HeadStatus.RUNNING), ReportAction.APPLY, "", id="4 no deferral while running"
        ),
        pytest.param(
            head(status=HeadStatus.DISPATCHED), ReportAction.CONSUME, "turn_not_waiting", id="5 dispatched"
        ),
        pytest.param(
            head(status=HeadStatus.IDLE, active_agent_turn_id=None),
            ReportAction.CONSUME,
            "another_turn",
            id="5 idle",
        ),
        pytest.param(payload(result={"a": 1}), ReportAction.FAIL, "invalid_payload", id="6 result"),
        pytest.param(payload(turn_epoch=3), ReportAction.FAIL, "invalid_payload", id="6 control"),
        pytest.param(
            payload(tool_result_card_id="without"),
            ReportAction.FAIL,
            "missing_tool_result_card",
            id="6 no card",
        ),
        pytest.param(
            payload(after_execution="later"), ReportAction.FAIL, "invalid_after_execution", id="6 after"
        ),
        pytest.param(
            payload(after_execution="without"), ReportAction.FAIL, "invalid_after_execution", id="6 no after"
        ),
        pytest.param(payload(status="fine"), ReportAction.APPLY, "", id="6 a bad status is no reason"),
        pytest.param({"card": None}, ReportAction.DEFER, "card_not_found", id="7 missing"),
        pytest.param(
            {"card": replace(CARD, type="tool.call")},
            ReportAction.FAIL,
            "wrong_tool_result_card",
            id="7 type",
        ),
        pytest.param(
            {"card": replace(CARD, tool_call_id="call_2")},
            ReportAction.FAIL,
            "wrong_tool_result_card",
            id="7 call",
        ),
        pytest.param({"card": replace(CARD, step_id="")}, ReportAction.FAIL, "card_without_step", id="8"),
        pytest.param({"wait": None}, ReportAction.CONSUME, "not_waited_for", id="10 not waited for"),
        pytest.param(
            {"wait": replace(WAIT, wait_status=WaitStatus.APPLIED)},
            ReportAction.CONSUME,
            "already_applied",
            id="10 applied",
        ),
        pytest.param(
            {"wait": replace(WAIT, wait_status=WaitStatus.EXPIRED)},
            ReportAction.CONSUME,
            "already_applied",
            id="10 expired",
        ),
        pytest.param(
            {"wait": replace(WAIT, wait_status=WaitStatus.DROPPED)},
            ReportAction.CONSUME,
            "already_applied",
            id="10 dropped",
        ),
        pytest.param(
            {"wait": replace(WAIT, wait_status=WaitStatus.RECEIVED)}, ReportAction.APPLY, "", id="10 received"
        ),
        pytest.param({"thought": None}, ReportAction.FAIL, "missing_thought", id="11 none"),
        pytest.param(
            {"thought": replace(THOUGHT, tool_calls=())},
            ReportAction.FAIL,
            "missing_thought",
            id="11 no calls",
        ),
        pytest.param({}, ReportAction.APPLY, "", id="12"),
    ],
)
def test_a_line(change: dict[str, Any], act: ReportAction, reason: str) -> None:
    decision = decide(replace(GOOD, **change))
    assert (decision.action, decision.reason) == (act, reason)
    assert (decision.delay > 0) == (act is ReportAction.DEFER)


def test_the_first_line_that_fits_decides() -> None:
    nothing = Report(replace(ROW, correlation_id=None, payload={}))
    assert decide(nothing).reason == "missing_tool_call_id"
    assert decide(replace(GOOD, head=None, card=None, wait=None)).reason == "state_not_found"
    assert decide(replace(GOOD, **payload(result=1), card=None)).reason == "invalid_payload"


def result(status: str, after: str, value: Any = None) -> Card:
    error = None if status == "success" else {"code": "c", "message": "m"}
    return replace(CARD, content=contents.tool_result_content(status, after, value, error))


STAY = {"__cg_control": {"after_execution": "suspend"}}
END = {"__cg_control": {"after_execution": "terminate"}}


@pytest.mark.parametrize(
    ("results", "chosen"),
    [
        pytest.param([result("success", "suspend"), result("failed", "suspend")], None, id="all suspend"),
        pytest.param([result("success", "suspend"), result("success", "terminate")], 1, id="one ends"),
        pytest.param([result("success", "terminate"), result("failed", "terminate")], 1, id="failure first"),
        pytest.param([result("timeout", "terminate"), result("failed", "terminate")], 0, id="first failure"),
        pytest.param([result("success", "terminate"), result("success", "terminate")], 0, id="first"),
        pytest.param([result("success", "terminate", STAY)], None, id="control keeps it going"),
        pytest.param([result("success", "suspend", END)], 0, id="control ends it"),
        pytest.param([result("success", "terminate", {"__cg_control": "x"})], 0, id="control is no control"),
        pytest.param([], None, id="none"),
    ],
)
def test_which_result_ends_a_turn(results: list[Card], chosen: int | None) -> None:
    final = final_result(results)
    assert (final is None) == (chosen is None)
    if final is not None and chosen is not None:
        assert final == (results[chosen], results[chosen].content["status"])
