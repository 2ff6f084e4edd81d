"""A session for Python programs: `agents.session("user-42", "guide")`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction
from afl.kernel.errors import InputError, StateError
from afl.kernel.ids import random_id
from afl.turns.budgets.limits import read_limits
from afl.turns.bus import outbox
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.content.given import Told
from afl.turns.model import TurnRef
from afl.turns.sessions import records
from afl.turns.sessions.history import check_history
from afl.turns.sessions.records import SessionRow, SessionTurn, Terms
from afl.turns.sessions.removal import NotPublished, Removed, remove

if TYPE_CHECKING:
    from afl.turns.agents import Agents

T = TypeVar("T")
_TRIES = 8
_PUBLISHED = Backoff(0.02, cap=0.5)


class Session:
    """A conversation with an id: each turn continues the one before. Turns of different sessions run side by side."""

    def __init__(
        self,
        agents: Agents,
        session_id: str,
        agent_id: str = "",
        *,
        history: Mapping[str, Any] | None = None,
        budget: Mapping[str, Any] | None = None,
    ) -> None:
        records.check_id(session_id)
        self.session_id = session_id
        self._agents = agents
        if history is not None:
            check_history(history)
        if budget is not None:
            read_limits(budget)
        self._terms = Terms(agent_id, history, budget)

    async def send(self, text: Told, **options: Any) -> TurnRef:
        """Ask for the next turn. It waits until those sent before are over. `options` are those of `Agents.send`."""
        actor = await self._actor()
        return await self._agents.send(actor, text, session=self, **options)

    @overload
    async def ask(
        self, text: Told, *, result: type[T], on_text: Callable[[str], None] | None = None, **options: Any
    ) -> T: ...

    @overload
    async def ask(
        self, text: Told, *, result: None = None, on_text: Callable[[str], None] | None = None, **options: Any
    ) -> Delivered: ...

    async def ask(
        self, text: Told, *, result: Any = None, on_text: Callable[[str], None] | None = None, **options: Any
    ) -> Any:
        """`send`, then wait: what the turn delivers; with `result` a value of that type, as with `Agents.ask`."""
        async with self._agents.words(await self._actor(), on_text):
            turn = await self.send(text, result=result, **options)
            delivered = await self._agents.wait(turn)
        return delivered if result is None else delivered.value(result)

    async def turns(self) -> list[SessionTurn]:
        """Its turns, oldest first; those it has in common with the session it is a fork of, too."""

        def look(tx: Transaction) -> list[SessionTurn]:
            return records.turns_of(tx, records.get_session(tx, self._agents.project, self.session_id))

        return await self._agents.engine.database.run("read", look)

    async def fork(self, session_id: str = "", *, after: str = "") -> Session:
        """A new session that continues after a turn of this one; empty: after its last one."""
        project = self._agents.project
        made = await self._agents.engine.database.run(
            "write", lambda tx: fork_after(tx, project, self.session_id, after, session_id)
        )
        return Session(self._agents, made.session_id)

    async def delete(self) -> Removed:
        """Remove the session and its turns with all that was said; what forks of it share with it stays."""
        project, database = self._agents.project, self._agents.engine.database
        for attempt in range(1, _TRIES + 1):
            try:
                return await database.run("write", lambda tx: remove(tx, project, self.session_id))
            except NotPublished:
                await asyncio.sleep(_PUBLISHED.delay(attempt))
        return await database.run("write", lambda tx: remove(tx, project, self.session_id))

    def enter(self, tx: Transaction) -> SessionRow:
        """The session, locked until the end of the transaction; made if there is none."""
        return records.enter(tx, self._agents.project, self.session_id, self._terms)

    async def _actor(self) -> str:
        if self._terms.agent_id:
            return records.actor_of(self._terms.agent_id, self.session_id)

        def look(tx: Transaction) -> str:
            return records.get_session(tx, self._agents.project, self.session_id).actor_id

        return await self._agents.engine.database.run("read", look)


def fork_after(tx: Transaction, project: str, origin: str, turn: str, session_id: str = "") -> SessionRow:
    """A new session that continues after a turn of another one (its id or beginning); empty: after the last."""
    turns = records.turns_of(tx, records.get_session(tx, project, origin))
    name = turn if turn.startswith("turn_") else f"turn_{turn}"
    found = [each for each in turns if not turn or each.agent_turn_id.startswith(name)]
    if not found or (turn and len(found) > 1):
        many = "several turns that begin with" if found else "no turn"
        raise InputError(f"session {origin!r} has {many} {turn!r}; `afl turns session {origin}` shows them")
    last = found[-1]
    if outbox.task_of_turn(tx, project, last.agent_turn_id) is None:
        raise StateError(f"turn {last.agent_turn_id} is not over; fork after an earlier one, or wait")
    return records.fork(tx, project, session_id or f"session_{random_id()}", origin, last.position)
