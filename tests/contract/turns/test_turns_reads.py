"""On PostgreSQL no transition of a turn reads more because the project has more in it.

Plans are made once, here while there is next to nothing, and without statistics, as on a new server. A plan that was
good then may read all of a project later; the numbers of rows and index entries show it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from support.databases import fresh_postgres_database
from support.reading import multiply, rows_read
from support.turns_house import OWNER, House

from afl.kernel.database import Query, connect
from afl.turns.cardbox.boxes import read_box
from afl.turns.model import Head
from afl.turns.protocol.ids import new_id
from afl.turns.store import inbox
from afl.turns.store.heads import read_waiting
from afl.turns.store.stale_turns import expired_waits
from afl.turns.store.turn_queries import instruction_of, latest_turns, turn_at_a_glance, turns_named
from afl.turns.transitions import apply_result, finish, resume
from afl.turns.worker.claims import claim
from afl.turns.worker.turn_state import read_boxes

T = TypeVar("T")
MORE = 300  # times as much as at first
FEW = 120  # what a transition may read

_PUBLISHED = Query.of(
    "update state.outbox set sequence = position, published_at = created_at", name="published"
)

# A turn's own columns in each table; what was done is there many times over, in the same project.
TABLES = {
    "cardbox.cards": ("card_id", "agent_turn_id", "step_id", "tool_call_id"),
    "cardbox.card_boxes": ("box_id", "writer"),
    "cardbox.box_cards": ("box_id", "card_id", "agent_turn_id"),
    "resource.project_agents": ("agent_id",),
    "state.agent_state_head": ("agent_id", "active_agent_turn_id", "output_box_id", "context_box_id"),
    "state.agent_inbox": ("inbox_id", "agent_id", "agent_turn_id", "correlation_id", "worker_target"),
    "state.execution_edges": ("edge_id", "correlation_id", "source_agent_turn_id", "target_agent_turn_id"),
    "state.turn_waiting_tools": ("agent_id", "agent_turn_id", "tool_call_id"),
    "state.agent_steps": ("agent_id", "step_id", "agent_turn_id"),
    "state.outbox": ("out_id", "agent_turn_id", "output_box_id", "deliverable_card_id"),
}


def _suspended(house: House, agent: str) -> Head:
    return house.suspended(agent, waits=house.waits(1, subject=house.subject()))[0]


def _applied(house: House, head: Head) -> Head:
    """The one call of a suspended turn, reported and applied."""
    (waiting,) = house.read(lambda tx: read_waiting(tx, head))
    (wait,) = house.waits(1)
    call = replace(wait, tool_call_id=waiting.tool_call_id)
    assert house.report(head, call).accepted
    (row,) = house.write(
        lambda tx: inbox.claim_due(tx, targets=[], owner=OWNER, project=house.project, agent=head.agent_id)
    )
    given = {"inbox_id": row.inbox_id, "tool_call_id": waiting.tool_call_id}
    card = row.payload["tool_result_card_id"]
    return house.write(lambda tx: apply_result(tx, head, **given, tool_result_card_id=card)).head


def _resumed(house: House, head: Head) -> Head:
    return house.write(lambda tx: resume(tx, head, owner=OWNER, step_id=new_id("step")))


def _delivered(house: House, head: Head) -> None:
    house.write(lambda tx: finish(tx, head, house.ending(head)))


def _begun(house: House) -> Head:
    """As workers do: the claim, the turn and its cards in one call."""
    given = {"targets": ["generic"], "owner": OWNER, "limit": 5, "lease_ms": 60_000}
    (turn,) = house.database.write(lambda tx: claim(tx, **given)).turns
    assert turn.cards
    return turn.head


def _turn(house: House, agent: str = "ada") -> dict[str, int]:
    """One whole turn; what each part of its way read."""
    read: dict[str, int] = {}

    def counted(name: str, act: Callable[[], T]) -> T:
        done: list[T] = []
        read[name] = rows_read(house.database, lambda: done.append(act()))
        return done[0]

    suspended = counted("sent, entered and suspended", lambda: _suspended(house, agent))
    turn = suspended.active_agent_turn_id or ""
    applied = counted("reported and applied", lambda: _applied(house, suspended))
    running = counted("resumed", lambda: _resumed(house, applied))
    counted("cards of both boxes", lambda: house.read(lambda tx: read_boxes(tx, running)))
    box, project = running.context_box_id or "", house.project
    counted("cards of a box", lambda: house.read(lambda tx: read_box(tx, project, box)))
    counted("delivered", lambda: _delivered(house, running))
    row = counted("a turn", lambda: house.read(lambda tx: turn_at_a_glance(tx, project, turn)))
    assert row is not None
    counted("its instruction", lambda: house.read(lambda tx: instruction_of(tx, row, project)))
    counted("newest turns", lambda: house.read(lambda tx: latest_turns(tx, project, limit=3)))
    counted("turns by name", lambda: house.read(lambda tx: turns_named(tx, project, turn)))
    assert house.enqueue(agent).accepted
    begun = counted("claimed and entered", lambda: _begun(house))
    _delivered(house, begun)
    counted("waits that are over", lambda: house.read(expired_waits))
    return read


@pytest.fixture
def house(postgres_url: str) -> Iterator[House]:
    with fresh_postgres_database(postgres_url) as url, connect(url) as database:
        yield House(database)


def test_a_turn_reads_what_it_is_about_and_no_more(house: House) -> None:
    for _ in range(3):
        _turn(house)
    _suspended(house, "ada")
    house.write(lambda tx: tx.run(_PUBLISHED))
    multiply(house.database, TABLES, MORE)
    house.hire("eve")
    read = _turn(house, "eve")
    assert {name: rows for name, rows in read.items() if rows >= FEW} == {}
    assert read["cards of a box"] > 0
