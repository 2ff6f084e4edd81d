"""enqueue, dispatch_next, lease: one request is one turn, and refused ones leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.turns_house import House

from afl.kernel.database import Transaction
from afl.turns.cardbox.boxes import box_info, create_box, read_box
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard, fields_schema, text, tool_result_content
from afl.turns.context import TurnContext, context_of_head, context_of_row
from afl.turns.errors import CardError, ErrorCode, ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import Head, Limits
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.primitives.enqueue import enqueue
from afl.turns.primitives.lease import Lease, lease_agent_turn_with_conn
from afl.turns.resources import Tool, put_tool
from afl.turns.statuses import (
    BoxKind,
    CardType,
    DepthPolicy,
    HeadStatus,
    InboxStatus,
    MessageType,
    ResultStatus,
)
from afl.turns.store import inbox
from afl.turns.transitions import finish, note


def test_a_turn_of_an_idle_agent_is_dispatched_at_once(house: House) -> None:
    result = house.enqueue()
    head, turn = house.head(), result.payload["agent_turn_id"]
    row = house.read(lambda tx: inbox.turn_row(tx, house.project, turn))
    assert row is not None
    assert (head.status, head.turn_epoch, head.active_agent_turn_id) == (HeadStatus.DISPATCHED, 1, turn)
    assert (row.status, row.turn_epoch, row.enqueue_mode) == (InboxStatus.PENDING, 1, "call")
    assert result.payload["turn_epoch"] == 1
    assert house.count("state.execution_edges", "primitive = 'enqueue' and edge_phase = 'request'") == 1
    (notify,) = result.signals
    assert notify.subject == "cg.v1r4.p1.public.cmd.agent.generic.wakeup"
    assert (notify.headers["CG-Agent-Id"], notify.payload["agent_id"]) == ("ada", "ada")
    assert "CG-Recursion-Depth" not in notify.headers


def test_turns_of_a_busy_agent_wait_and_begin_in_their_order(house: House) -> None:
    turns = [house.enqueue().payload["agent_turn_id"] for _ in range(4)]
    began = []
    while (head := house.head()).status is HeadStatus.DISPATCHED:
        began.append(head.active_agent_turn_id)
        house.write(lambda tx, head=head: finish(tx, head, house.ending(head)))  # type: ignore[misc]
    assert began == turns
    assert house.head().turn_epoch == 4
    assert house.count("state.outbox", "kind = 'task'") == 4


def test_dispatch_next_does_nothing_for_a_busy_agent_or_an_empty_queue(house: House) -> None:
    nothing = house.write(lambda tx: dispatch_next(tx, house.project, "ada"))
    assert (nothing.status, nothing.payload) == (ResultStatus.ACCEPTED, {"dispatched": None})
    house.dispatched()
    house.enqueue()
    before = house.dump()
    assert house.write(lambda tx: dispatch_next(tx, house.project, "ada")).status is ResultStatus.BUSY
    assert house.dump() == before


def test_a_lease_is_refused_while_the_agent_is_busy(house: House) -> None:
    head = house.dispatched()
    lease = Lease(house.project, "ada", "turn_x", "public", "inbox_x", head.output_box_id or "")
    before = house.dump()
    assert house.write(lambda tx: lease_agent_turn_with_conn(tx, lease)) is None
    assert house.dump() == before


def test_the_same_request_again_is_the_same_turn(house: House) -> None:
    boxes = house.write(house.boxes)
    first = house.enqueue(boxes=boxes, correlation_id="c1")
    before = house.dump()
    again = house.enqueue(boxes=boxes, correlation_id="c1")
    assert again.accepted and again.payload["duplicate"]
    assert again.payload["agent_turn_id"] == first.payload["agent_turn_id"]
    assert house.dump() == before


def test_another_request_under_the_same_name_is_refused(house: House) -> None:
    house.enqueue(correlation_id="c1")
    boxes = house.write(house.boxes)
    before = house.dump()
    other = house.enqueue(boxes=boxes, correlation_id="c1")
    assert other.error_code is ErrorCode.PROTOCOL_VIOLATION
    assert house.enqueue("bob", boxes=boxes, correlation_id="c1").status is ResultStatus.REJECTED
    assert house.dump() == before


def test_projects_do_not_share_names(house: House) -> None:
    other = House(house.database, "p2")
    assert house.enqueue(correlation_id="same").accepted
    assert other.enqueue(correlation_id="same").accepted
    assert house.count("state.agent_inbox", "correlation_id = 'same'") == 2


def test_a_ui_action_takes_an_idle_agent(house: House) -> None:
    result = house.act()
    head = house.head()
    assert result.accepted and head.status is HeadStatus.DISPATCHED
    assert head.expecting_correlation_id == "a1"
    box = house.read(lambda tx: box_info(tx, house.project, head.output_box_id or ""))
    assert box is not None and (box.held, box.writer) == (True, head.active_agent_turn_id)
    ended = house.write(lambda tx: finish(tx, head, house.ending(head)))
    assert ended.stored == 1


def test_a_ui_action_for_a_busy_agent_writes_nothing(house: House) -> None:
    house.dispatched()
    before = house.dump()
    result = house.act()
    assert (result.status, result.error_code) == (ResultStatus.BUSY, ErrorCode.AGENT_BUSY)
    assert house.dump() == before


def test_depth_grows_with_every_delegation_and_stops_at_the_limit(house: House) -> None:
    context, depths = house.user, []
    for number in range(40):
        agent = f"agent-{number}"
        house.hire(agent)
        result = house.enqueue(agent, context=context)
        if not result.accepted:
            break
        depths.append(result.payload["recursion_depth"])
        row = house.read(lambda tx, r=result: inbox.turn_row(tx, house.project, r.payload["agent_turn_id"]))  # type: ignore[misc]
        assert row is not None
        context = context_of_row(row)  # as a replayed message would give it
    assert depths == list(range(20))
    assert result.error_code is ErrorCode.RECURSION_DEPTH_EXCEEDED


def test_depth_is_that_of_the_turn_whatever_the_headers_say(house: House) -> None:
    first = house.enqueue(context=replace(house.user, recursion_depth=5))
    assert first.payload["recursion_depth"] == 5
    lie = replace(context_of_head(house.head()), recursion_depth=0)
    assert house.enqueue("bob", context=lie).payload["recursion_depth"] == 6


@pytest.mark.parametrize(("policy", "depth"), [("descend", 4), ("peer", 3), ("root", 0)])
def test_depth_policies(house: House, policy: str, depth: int) -> None:
    house.enqueue(context=replace(house.user, recursion_depth=3))
    context = context_of_head(house.head(), "step_1")
    result = house.enqueue("bob", context=context, depth_policy=DepthPolicy(policy))
    assert result.payload["recursion_depth"] == depth
    row = house.read(lambda tx: inbox.turn_row(tx, house.project, result.payload["agent_turn_id"]))
    assert row is not None
    parents = [row.context_headers.get(f"CG-Parent-{name}-Id") for name in ("Agent", "Turn", "Step")]
    known = ["ada", context.agent_turn_id, "step_1"]
    assert parents == ([None] * 3 if policy == "root" else known)


def test_the_limit_of_depth_is_a_setting(house: House) -> None:
    boxes = house.write(house.boxes)
    intent, deep = SpawnIntent("ada", boxes), replace(house.user, recursion_depth=2)
    result = house.write(lambda tx: enqueue(tx, deep, intent, Limits(max_depth=2)))
    assert result.error_code is ErrorCode.RECURSION_DEPTH_EXCEEDED


Bad = Callable[[House, dict[str, str]], tuple[TurnContext, SpawnIntent]]
REFUSED: dict[str, tuple[ErrorCode, Bad]] = {
    "an unknown agent": (
        ErrorCode.UNKNOWN_AGENT,
        lambda house, boxes: (house.user, SpawnIntent("nobody", boxes)),
    ),
    "an unknown source": (
        ErrorCode.INVALID_SOURCE_ACTOR,
        lambda house, boxes: (TurnContext.root("p1", "stranger"), SpawnIntent("ada", boxes)),
    ),
    "an agent of another project": (
        ErrorCode.UNKNOWN_AGENT,
        lambda house, boxes: (TurnContext.root("p9", "sys.test"), SpawnIntent("ada", boxes)),
    ),
    "an unknown field": (
        ErrorCode.FORBIDDEN_FIELD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {**boxes, "result": 1})),
    ),
    "another agent in the payload": (
        ErrorCode.FORBIDDEN_FIELD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {**boxes, "agent_id": "bob"})),
    ),
    "an epoch in the payload": (
        ErrorCode.FORBIDDEN_FIELD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {**boxes, "turn_epoch": 7})),
    ),
    "no output box": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {"context_box_id": boxes["context_box_id"]})),
    ),
    "a box that is none": (
        ErrorCode.UNKNOWN_BOX,
        lambda house, boxes: (house.user, SpawnIntent("ada", {**boxes, "context_box_id": "box_x"})),
    ),
    "a context box for output": (
        ErrorCode.PROTOCOL_VIOLATION,
        lambda house, boxes: (
            house.user,
            SpawnIntent("ada", {**boxes, "output_box_id": boxes["context_box_id"]}),
        ),
    ),
    "metadata that is no map": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {**boxes, "metadata": [1]})),
    ),
    "a message that begins no turn": (
        ErrorCode.PROTOCOL_VIOLATION,
        lambda house, boxes: (house.user, SpawnIntent("ada", boxes, MessageType.STOP)),
    ),
    "an action without a tool": (
        ErrorCode.MALFORMED_PAYLOAD,
        lambda house, boxes: (house.user, SpawnIntent("ada", {"action_id": "a"}, MessageType.UI_ACTION)),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_leaves_no_trace(house: House, case: str) -> None:
    code, make = REFUSED[case]
    context, intent = make(house, house.write(house.boxes))
    before = house.dump()
    result = house.write(lambda tx: enqueue(tx, context, intent))
    assert (result.status, result.error_code) == (ResultStatus.REJECTED, code)
    assert result.error and not [each for each in result.signals if each.subject.endswith(".wakeup")]
    assert house.dump() == before


def test_identity_in_a_payload_that_agrees_is_left_out(house: House) -> None:
    boxes: dict[str, Any] = {**house.write(house.boxes), "agent_id": "ada", "project_id": "p1"}
    result = house.enqueue(boxes=boxes)
    row = house.read(lambda tx: inbox.turn_row(tx, house.project, result.payload["agent_turn_id"]))
    assert row is not None and not {"agent_id", "project_id"} & row.payload.keys()


def test_a_turn_that_needs_a_held_output_box_gets_a_fork(house: House) -> None:
    boxes = house.write(house.boxes)
    house.enqueue(boxes=boxes)
    head = house.head()
    started = house.running("bob")
    assert started.output_box_id != boxes["output_box_id"]
    house.write(lambda tx: finish(tx, started, house.ending(started)))
    second = house.enqueue("bob", boxes=boxes)
    fork = house.head("bob").output_box_id or ""
    assert fork == second.payload["output_box_id"] != head.output_box_id
    info = house.read(lambda tx: box_info(tx, house.project, fork))
    assert info is not None and (info.parent_box_id, info.held) == (boxes["output_box_id"], True)


def test_a_fork_begins_with_the_cards_of_its_parent(house: House) -> None:
    first = house.running()
    house.write(lambda tx: note(tx, first, cards=[house.card(first), house.card(first)]))
    context = house.write(house.boxes)["context_box_id"]
    boxes = {"context_box_id": context, "output_box_id": first.output_box_id or ""}
    house.enqueue("bob", boxes=boxes)
    fork = house.head("bob").output_box_id or ""
    cards = house.read(lambda tx: read_box(tx, house.project, fork))
    assert [position for position, _ in cards] == [0, 1]
    assert {card.author_id for _, card in cards} == {"ada"}


BAD_WRITES: dict[str, tuple[ErrorCode, Callable[[House, Transaction, Head], Any]]] = {
    "a card by another agent": (
        ErrorCode.FOREIGN_AUTHOR,
        lambda house, tx, head: note(tx, head, cards=[replace(house.card(head), author_id="bob")]),
    ),
    "a card of another turn": (
        ErrorCode.FOREIGN_AUTHOR,
        lambda house, tx, head: note(tx, head, cards=[replace(house.card(head), agent_turn_id="turn_x")]),
    ),
    "a card that is too large": (
        ErrorCode.CARD_TOO_LARGE,
        lambda house, tx, head: note(tx, head, cards=[replace(house.card(head), content=text("x" * 2**20))]),
    ),
    "a card of no type": (
        ErrorCode.MALFORMED_CARD,
        lambda house, tx, head: save_cards(tx, "p1", [replace(house.card(head), type="poem")]),
    ),
    "a result that is no result": (
        ErrorCode.MALFORMED_CARD,
        lambda house, tx, head: save_cards(
            tx,
            "p1",
            [
                NewCard(
                    CardType.TOOL_RESULT,
                    tool_result_content("success", error={"code": "x", "message": "y"}),
                    "tool.x",
                    tool_call_id="c",
                    function_name="f",
                )
            ],
        ),
    ),
    "result fields without names": (
        ErrorCode.MALFORMED_SCHEMA,
        lambda house, tx, head: save_cards(
            tx, "p1", [NewCard(CardType.RESULT_FIELDS, fields_schema([{"description": "?"}]), "sys.test")]
        ),
    ),
    "a tool with a schema that is none": (
        ErrorCode.MALFORMED_SCHEMA,
        lambda house, tx, head: put_tool(tx, Tool("p1", "bad", "", {"type": "string"})),
    ),
    "a tool that requires what it lacks": (
        ErrorCode.MALFORMED_SCHEMA,
        lambda house, tx, head: put_tool(
            tx, Tool("p1", "bad", "", {"type": "object", "properties": {}, "required": ["q"]})
        ),
    ),
    "a tool whose subject is a notifier": (
        ErrorCode.PROTOCOL_VIOLATION,
        lambda house, tx, head: put_tool(
            tx,
            Tool("p1", "bad", "", {"type": "object"}, "cg.v1r4.{project_id}.{channel_id}.cmd.agent.x.wakeup"),
        ),
    ),
    "a box of cards that are none": (
        ErrorCode.UNKNOWN_CARD,
        lambda house, tx, head: create_box(tx, "p1", BoxKind.CONTEXT, ["card_x"]),
    ),
}


@pytest.mark.parametrize("case", BAD_WRITES)
def test_bad_cards_schemas_and_boxes_leave_no_trace(house: House, case: str) -> None:
    code, act = BAD_WRITES[case]
    head = house.running()
    before = house.dump()
    with pytest.raises(ProtocolViolation) as refused:
        house.write(lambda tx: act(house, tx, head))
    assert refused.value.code is code
    assert house.dump() == before


def test_the_limit_for_a_card_is_a_setting(house: House) -> None:
    card = NewCard(CardType.TASK_INSTRUCTION, text("x" * 100), "sys.test")
    with pytest.raises(CardError, match="more than the limit of 50"):
        house.write(lambda tx: save_cards(tx, "p1", [card], Limits(card_bytes=50)))
    assert house.count("cardbox.cards", "type = 'task.instruction'") == 0
