"""Sessions as an operator sees and changes them: conversations with ids, as lists and as transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from msgspec import Meta

from afl.kernel.bounds import LONGEST_NAME
from afl.kernel.database import Transaction
from afl.operations.parameters import Limit, Skip, about
from afl.operations.turn.parameters import Files
from afl.operations.turn.turn_store import TurnStore, reading, with_agents
from afl.operations.turn.turn_view import TurnView, view
from afl.operations.turn.turns import known_agent
from afl.turns.agents import Agents
from afl.turns.model import TurnRef
from afl.turns.sessions import records
from afl.turns.sessions.records import SessionRow
from afl.turns.sessions.removal import Removed
from afl.turns.sessions.session import fork_after

SessionId = Annotated[str, Meta(max_length=LONGEST_NAME, description="The session's id.")]


@dataclass(frozen=True, slots=True)
class SessionLine:
    """A session on one line; times are milliseconds. `actor` is whom its turns are of in lists of turns."""

    session: str
    agent: str
    actor: str
    turns: int
    forked_from: str
    created: int
    changed: int

    @classmethod
    def of(cls, row: SessionRow) -> SessionLine:
        return cls(
            row.session_id,
            row.agent_id,
            row.actor_id,
            row.turns,
            row.forked_from,
            row.created_at,
            row.updated_at,
        )


@dataclass(frozen=True, slots=True)
class SessionView:
    """A session with its latest turns, oldest first."""

    session: SessionLine
    history: Mapping[str, Any]
    budget: Mapping[str, Any]
    turns: list[TurnView]


def list_sessions(
    where: TurnStore,
    agent: Annotated[str, about("Only sessions of this agent.")] = "",
    limit: Limit = 20,
    skip: Skip = 0,
) -> list[SessionLine]:
    """List sessions, those with the newest turns first."""

    def look(tx: Transaction) -> list[SessionLine]:
        if agent:
            known_agent(tx, where.project, agent)
        rows = records.list_sessions(tx, where.project, agent, limit, skip)
        return [SessionLine.of(row) for row in rows]

    with reading(where) as database:
        return database.read(look)


def show_session(where: TurnStore, session: SessionId, limit: Limit = 20) -> SessionView:
    """Show a session as one transcript: its latest turns, with all that was asked, called and answered."""

    with reading(where) as database:
        now = database.now()

        def look(tx: Transaction) -> SessionView:
            row = records.get_session(tx, where.project, session)
            turns = records.turns_of(tx, row)[-limit:]
            views = [view(tx, where.project, turn.agent_turn_id, now) for turn in turns]
            return SessionView(SessionLine.of(row), row.history, row.budget, views)

        return database.read(look)


def send_to_session(
    where: TurnStore,
    session: SessionId,
    text: str,
    agent: Annotated[str, about("The agent of a session that may be new.")] = "",
    *,
    fields: Mapping[str, str] | None = None,
    result: Annotated[
        Mapping[str, Any] | None, about("A JSON schema for the result; `title` is its name.")
    ] = None,
    history: Annotated[
        Mapping[str, Any] | None, about("How much of it a turn reads: last, tokens, summary.")
    ] = None,
    correlation: Annotated[str | None, about("The same one again is the same turn.")] = None,
    files: Files = None,
) -> TurnRef:
    """Ask for the next turn of a session; it continues the one before. The first one makes the session."""

    async def work(agents: Agents) -> TurnRef:
        if agent:
            await agents.engine.database.run("read", lambda tx: known_agent(tx, where.project, agent))
        found = agents.session(session, agent, history=history)
        told = [text, *files] if files else text
        return await found.send(told, fields=fields, result=result, correlation_id=correlation)

    return with_agents(where, work)


def fork_session(
    where: TurnStore,
    session: SessionId,
    after: Annotated[
        str, about("The turn that it continues from, or a prefix of its id. Default: the last.")
    ] = "",
    name: Annotated[
        str, Meta(max_length=LONGEST_NAME, description="The new id. Made up if there is none.")
    ] = "",
) -> SessionLine:
    """Make a new session that continues from a turn of another one, which stays as it is."""
    with reading(where) as database:
        made = database.write(lambda tx: fork_after(tx, where.project, session, after, name))
    return SessionLine.of(made)


def delete_session(where: TurnStore, session: SessionId) -> Removed:
    """Delete a session: its turns and all their content. What forks share with it stays."""

    async def work(agents: Agents) -> Removed:
        return await agents.session(session).delete()

    return with_agents(where, work)
