"""Sessions in the store: a row for each, and one for each of its turns. Plain functions over an open transaction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

from afl.kernel.bounds import LONGEST_NAME, is_name
from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries
from afl.kernel.errors import InputError, NotFoundError
from afl.turns.cardbox.cards import NewCard, json_data
from afl.turns.resources import Agent, get_agent, put_agent
from afl.turns.sessions.history import check_history
from afl.turns.statuses import CardType

Q = queries("afl.turns.store", "sql/sessions")
_TOKEN = re.compile(r"[\w@:+-]+")
_READABLE = 64
_HASH = 12
AUTHOR = "sys.session"


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session. `actor_id` is the entry of its agent in the roster that runs its turns, one at a time."""

    project_id: str
    session_id: str
    agent_id: str
    actor_id: str
    turns: int
    history: Mapping[str, Any] = field(default_factory=dict)
    budget: Mapping[str, Any] = field(default_factory=dict)
    forked_from: str = ""
    created_at: int = 0
    updated_at: int = 0

    @classmethod
    def of(cls, row: Row) -> SessionRow:
        values = {name: row[name] for name in cls.__slots__}
        return cls(**values | {"history": decode(row["history"]), "budget": decode(row["budget"])})


@dataclass(frozen=True, slots=True)
class SessionTurn:
    """A turn of a session; positions are counted from 0."""

    position: int
    agent_turn_id: str
    context_box_id: str
    output_box_id: str


@dataclass(frozen=True, slots=True)
class Terms:
    """What a caller says of a session: its agent, if it may be new, and what it wants changed (None: nothing)."""

    agent_id: str = ""
    history: Mapping[str, Any] | None = None
    budget: Mapping[str, Any] | None = None


def actor_of(agent_id: str, session_id: str) -> str:
    """The name in the roster of an agent within a session; one that fits into subjects."""
    if _TOKEN.fullmatch(session_id) and len(session_id) <= _READABLE:
        return f"{agent_id}~{session_id}"
    return f"{agent_id}~{sha256(session_id.encode()).hexdigest()[:_HASH]}"


def get_session(tx: Transaction, project: str, session_id: str) -> SessionRow:
    """The session; NotFoundError if there is none."""
    row = tx.one(Q.get_session, project=project, session=session_id)
    if row is None:
        raise NotFoundError(
            f"project {project} has no session {session_id!r}; `afl turns sessions` lists them"
        )
    return SessionRow.of(row)


def list_sessions(
    tx: Transaction, project: str, agent_id: str = "", limit: int = 20, skip: int = 0
) -> list[SessionRow]:
    """Those with the newest turns first."""
    rows = tx.all(Q.list_sessions, project=project, agent=agent_id, limit=limit, skip=skip)
    return [SessionRow.of(row) for row in rows]


def enter(tx: Transaction, project: str, session_id: str, terms: Terms) -> SessionRow:
    """The session, locked until the end of the transaction, so that its turns are sent one after the other.

    It is made if there is none; its actor has the current profile and workers of its agent.
    """
    check_id(session_id)
    known = tx.one(Q.lock_session, project=project, session=session_id)
    if known is None:
        if not terms.agent_id:
            raise InputError(f"there is no session {session_id!r} yet; say of which agent: agent=...")
        _create(tx, SessionRow(project, session_id, terms.agent_id, "", 0))
        known = tx.one(Q.lock_session, project=project, session=session_id)
        assert known is not None
    session = _changed(tx, SessionRow.of(known), terms)
    _place_actor(tx, session)
    return session


def fork(tx: Transaction, project: str, session_id: str, origin_id: str, last: int) -> SessionRow:
    """A new session with the turns of another one up to a position."""
    check_id(session_id)
    origin = get_session(tx, project, origin_id)
    made = replace(origin, session_id=session_id, turns=last + 1, forked_from=origin_id)
    if not _create(tx, made):
        raise InputError(f"there is a session {session_id!r} already; give the fork another id")
    tx.run(Q.copy_turns, project=project, session=session_id, origin=origin_id, last=last)
    return get_session(tx, project, session_id)


def add_turn(tx: Transaction, session: SessionRow, turn_id: str, boxes: Mapping[str, str]) -> None:
    """Append a turn to a session that this transaction has locked."""
    about = {"project": session.project_id, "session": session.session_id}
    tx.run(
        Q.add_turn,
        **about,
        position=session.turns,
        turn=turn_id,
        context_box=boxes["context_box_id"],
        output_box=boxes["output_box_id"],
    )
    tx.run(Q.count_turn, **about)


def turns_of(tx: Transaction, session: SessionRow) -> list[SessionTurn]:
    """The turns of a session, oldest first."""
    about = {"project": session.project_id, "session": session.session_id}
    rows = tx.all(Q.turns_of, **about, low=0, high=session.turns)
    return [SessionTurn(**{name: row[name] for name in SessionTurn.__slots__}) for row in rows]


def session_of_turn(tx: Transaction, project: str, turn_id: str, actor_id: str) -> str:
    """The session that a turn was sent to, or a fork of it if that one is deleted; empty if there is none."""
    row = tx.one(Q.session_of_turn, project=project, turn=turn_id, actor=actor_id)
    return "" if row is None else str(row["session_id"])


def session_card(session: SessionRow) -> NewCard:
    """The card in the context box of a turn that says which turns it follows."""
    about = {"session_id": session.session_id, "position": session.turns, "budget": dict(session.budget)}
    return NewCard(CardType.SESSION, json_data(about), AUTHOR)


def check_id(session_id: str) -> None:
    """InputError for what cannot be an id."""
    if not is_name(session_id):
        raise InputError(
            f"session {session_id[:80]!r}: expected 1 to {LONGEST_NAME} characters, no control characters among them"
        )


def _create(tx: Transaction, session: SessionRow) -> bool:
    return bool(
        tx.run(
            Q.create_session,
            project=session.project_id,
            session=session.session_id,
            agent=session.agent_id,
            actor=actor_of(session.agent_id, session.session_id),
            turns=session.turns,
            history=encode(dict(session.history)),
            budget=encode(dict(session.budget)),
            forked_from=session.forked_from,
        )
    )


def _changed(tx: Transaction, session: SessionRow, terms: Terms) -> SessionRow:
    """The session as the caller wants it; InputError if it is another agent's."""
    if terms.agent_id not in ("", session.agent_id):
        raise InputError(
            f"session {session.session_id!r} is one of {session.agent_id}, not of {terms.agent_id}"
        )
    history = session.history if terms.history is None else check_history(terms.history)
    budget = session.budget if terms.budget is None else dict(terms.budget)
    if (history, budget) != (session.history, session.budget):
        tx.run(
            Q.change_session,
            project=session.project_id,
            session=session.session_id,
            history=encode(dict(history)),
            budget=encode(dict(budget)),
        )
    return replace(session, history=history, budget=budget)


def _place_actor(tx: Transaction, session: SessionRow) -> None:
    """Enter the actor into the roster, as its agent is now; InputError if nobody defined that."""
    agent = get_agent(tx, session.project_id, session.agent_id)
    if agent is None:
        raise InputError(f"project {session.project_id} has no agent {session.agent_id!r}")
    about = {"session": session.session_id, "agent": session.agent_id}
    actor = Agent(
        session.project_id,
        session.actor_id,
        agent.profile_box_id,
        agent.worker_target,
        (),  # delegation by tags finds the agent itself
        agent.display_name,
        session.agent_id,
        agent.status,
        about,
    )
    known = get_agent(tx, session.project_id, session.actor_id)
    if known is None or replace(known, tags=()) != actor:
        put_agent(tx, actor)
