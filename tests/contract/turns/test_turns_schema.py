"""What the schema itself refuses, whoever writes it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.turns_house import House

from afl.kernel.database import Query
from afl.kernel.errors import StoreConflict
from afl.turns.cardbox.card_store import save_cards
from afl.turns.protocol.transitions import TRANSITIONS, diagram, head_moves
from afl.turns.statuses import HeadStatus
from afl.turns.transitions import finish

HEAD = "update state.agent_state_head set revision = revision + 1, {} where agent_id = 'ada'"
REFUSED = {
    "a status that is none": HEAD.format("status = 'sleeping'"),
    "an older epoch": HEAD.format("turn_epoch = turn_epoch - 1"),
    "an older revision": "update state.agent_state_head set revision = revision - 1",
    "a move that keeps the revision": "update state.agent_state_head set turn_epoch = turn_epoch + 1",
    "idle with a turn": HEAD.format(
        "status = 'idle', owner = '', waiting_tool_count = 0, resume_deadline = null"
    ),
    "active without a turn": HEAD.format("active_agent_turn_id = null"),
    "another turn on the way": HEAD.format("active_agent_turn_id = 'turn_x'"),
    "back to dispatched": HEAD.format(
        "status = 'dispatched', waiting_tool_count = 0, resume_deadline = null, owner = ''"
    ),
    "running without an owner": HEAD.format(
        "status = 'running', waiting_tool_count = 0, resume_deadline = null"
    ),
    "a wait set while running": HEAD.format("status = 'running', owner = 'w'"),
    "one turn on two agents": (
        "insert into state.agent_state_head (project_id, agent_id, status, active_agent_turn_id, output_box_id,"
        " updated_at) select project_id, 'eve', 'dispatched', active_agent_turn_id, 'box', 0"
        " from state.agent_state_head where agent_id = 'ada'"
    ),
    "a message status that is none": "update state.agent_inbox set status = 'lost'",
    "a message that is done and undone": (
        "update state.agent_inbox set status = 'pending', archived_at = null where status = 'consumed'"
    ),
    "processing by nobody": "update state.agent_inbox set status = 'processing' where status = 'pending'",
    "a result applied twice": (
        "update state.turn_waiting_tools set wait_status = 'applied' where wait_status = 'applied'"
    ),
    "a wait status that is none": (
        "update state.turn_waiting_tools set wait_status = 'maybe' where wait_status = 'waiting'"
    ),
    "a card that changes": "update cardbox.cards set content = '{}'",
    "a box that is rewritten": "update cardbox.box_cards set position = position + 100",
    "a context box that grows": "update cardbox.card_boxes set length = length + 1 where kind = 'context'",
    "a card in a context box": (
        "insert into cardbox.box_cards select project_id, box_id, 1, 'card_spare', '' from cardbox.card_boxes"
        " where kind = 'context'"
    ),
    "a second writer": "update cardbox.card_boxes set writer = 'turn_x' where held = 1",
    "a card of a turn that does not hold the box": (
        "insert into cardbox.box_cards select project_id, box_id, length, 'card_spare', 'turn_x'"
        " from cardbox.card_boxes where held = 1"
    ),
    "a released box that grows": (
        "update cardbox.card_boxes set length = length + 1 where kind = 'output' and held = 0"
    ),
    "a shorter box": "update cardbox.card_boxes set length = length - 1 where length > 0",
    "a second result of a call": (
        "insert into cardbox.cards select project_id, 'card_twin', type, author_id, role, agent_turn_id, step_id,"
        " tool_call_id, function_name, content, tool_calls, metadata, created_at from cardbox.cards"
        " where type = 'tool.result'"
    ),
    "a second end of a turn": (
        "insert into state.outbox (out_id, project_id, kind, subject, headers, payload, agent_id, agent_turn_id,"
        " status, output_box_id, deliverable_card_id, created_at) select 'out_twin', project_id, kind, subject,"
        " headers, payload, agent_id, agent_turn_id, status, output_box_id, deliverable_card_id, created_at"
        " from state.outbox where kind = 'task'"
    ),
    "an end without a deliverable": "update state.outbox set deliverable_card_id = null where kind = 'task'",
    "a deliverable that is not in the box": (
        "update state.outbox set deliverable_card_id = 'card_spare' where kind = 'task'"
    ),
    "a second report of a call": (
        "insert into state.agent_inbox (inbox_id, project_id, agent_id, worker_target, message_type, correlation_id,"
        " agent_turn_id, context_headers, payload, next_retry_at, created_at) select 'inbox_twin', project_id,"
        " agent_id, worker_target, 'timeout', correlation_id, agent_turn_id, '{}', '{}', 0, 0 from state.agent_inbox"
        " where message_type = 'tool_result'"
    ),
    "an edge that is none": "update state.execution_edges set primitive = 'shout'",
    "a depth below zero": "update state.execution_edges set recursion_depth = -1",
}


@pytest.fixture
def lived_in(house: House) -> House:
    """Bob has finished a turn; Ada waits for two tools, of which one has answered and been applied."""
    done = house.running("bob")
    house.write(lambda tx: finish(tx, done, house.ending(done)))
    head, waits = house.suspended(waits=house.waits(3))
    house.report(head, waits[0])
    call = waits[1].tool_call_id
    house.write(
        lambda tx: tx.run(
            Query.of(
                f"update {'state.' if house.database.dialect == 'postgres' else 'state_'}turn_waiting_tools"
                f" set wait_status = 'applied', tool_result_card_id = 'c' where tool_call_id = '{call}'"
            )
        )
    )
    spare = replace(house.card(house.head()), card_id="card_spare")
    house.write(lambda tx: save_cards(tx, house.project, [spare]))
    return house


@pytest.mark.parametrize("case", REFUSED)
def test_illegal_states_are_impossible(lived_in: House, case: str) -> None:
    statement = REFUSED[case]
    if lived_in.database.dialect == "sqlite":
        for space in ("state", "cardbox", "resource"):
            statement = statement.replace(f"{space}.", f"{space}_")
    before = lived_in.dump()
    with pytest.raises(StoreConflict):
        lived_in.write(lambda tx: tx.run(Query.of(statement)))
    assert lived_in.dump() == before


def test_the_schema_and_the_table_agree_on_the_moves_of_a_head(house: House) -> None:
    """Every pair of states that the table does not have is refused by the schema, and only those."""
    moves = head_moves()
    table = "state.agent_state_head" if house.database.dialect == "postgres" else "state_agent_state_head"
    for number, (source, target) in enumerate((a, b) for a in HeadStatus for b in HeadStatus):
        if source is target:
            continue
        agent = f"mover-{number}"
        made = f"values ('p', '{agent}', 0{_values(source, agent)})"
        assert (
            _run(house, f"insert into {table} (project_id, agent_id, updated_at{_columns(source)}) {made}")
            == 1
        )
        change = f"{_changes(target, agent)}, revision = revision + 1, turn_epoch = turn_epoch + 1"
        update = f"update {table} set {change} where agent_id = '{agent}'"
        if (source.value, target.value) in moves:
            assert _run(house, update) == 1
        else:
            with pytest.raises(StoreConflict):
                _run(house, update)


def _run(house: House, statement: str) -> int:
    return house.write(lambda tx: tx.run(Query.of(statement)))


def _state(status: HeadStatus, agent: str) -> dict[str, str]:
    turn = "null" if status is HeadStatus.IDLE else f"'turn-{agent}'"
    return {
        "status": f"'{status.value}'",
        "active_agent_turn_id": turn,
        "output_box_id": "'box'",
        "owner": "'w'" if status is HeadStatus.RUNNING else "''",
    }


def _columns(status: HeadStatus) -> str:
    return "".join(f", {name}" for name in _state(status, ""))


def _values(status: HeadStatus, agent: str) -> str:
    return "".join(f", {value}" for value in _state(status, agent).values())


def _changes(status: HeadStatus, agent: str) -> str:
    return ", ".join(f"{name} = {value}" for name, value in _state(status, agent).items())


def test_the_diagram_shows_every_transition() -> None:
    drawn = diagram()
    assert drawn.startswith("stateDiagram-v2")
    for transition in TRANSITIONS:
        assert f": {transition.name} " in drawn
