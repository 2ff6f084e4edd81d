"""What happens in a turn, by position: for the HTTP API, the client, and whoever polls."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from afl.kernel.database import Database, Transaction
from afl.kernel.notify import open_notifier
from afl.operations.parameters import Limit, LongPoll, Turn
from afl.operations.turn.turn_store import TurnStore, reading
from afl.operations.turn.turns import find_turn
from afl.turns.model import TurnRef
from afl.turns.topics import turn_topic
from afl.turns.turn_events import AgentEventPage, EventPosition, read_turn_page

TurnPosition = Annotated[
    str, Meta(pattern=r"^(\d{1,15}(\.\d{1,15}){3})?$", description="The position of the last event.")
]


def read_turn_events(
    where: TurnStore, turn: Turn, *, after: TurnPosition = "", limit: Limit = 1_000, wait: LongPoll = 0
) -> AgentEventPage:
    """Read what happened in a turn after a position: its steps, what its model says, its calls and their results, its
    end.

    If there is nothing new and the turn goes on, what happens in the next `wait` seconds. Reading on from a
    position misses nothing and repeats nothing. With `Accept: text/event-stream` the HTTP API sends the events as
    they come, until the turn is over; `Last-Event-ID` is the position.
    """
    place = EventPosition.of(after)
    with reading(where) as database:
        found = database.read(lambda tx: find_turn(tx, where.project, turn))
        if not wait:
            return _page(database, found, place, limit)
        with (
            open_notifier(database) as notifier,
            notifier.subscribe([turn_topic(found.agent_turn_id)]) as subscription,
        ):
            return subscription.poll(
                lambda: _page(database, found, place, limit),
                lambda page: bool(page.events or page.over),
                wait,
            )


def _page(database: Database, turn: TurnRef, place: EventPosition, limit: int) -> AgentEventPage:
    def look(tx: Transaction) -> AgentEventPage:
        return read_turn_page(tx, turn.project_id, turn.agent_turn_id, place, limit)

    return database.read(look)
