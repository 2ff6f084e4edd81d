# Generated from async_session.py by `make docs`; change that file.
"""A conversation with an id, as the client sees it: `flow.turns.session("user-42", agent="guide")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from afl.client.calls import Calls
from afl.models.result_type import result_type
from afl.operations.turn import sessions
from afl.operations.turn.sessions import SessionView
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.content.given import files_given
from afl.turns.model import TurnRef
from afl.turns.sessions.removal import Removed

if TYPE_CHECKING:
    from afl.client.turns import Turns

T = TypeVar("T")


class Session:
    """A session: each turn continues the previous one; turns sent while one is running wait in order."""

    def __init__(
        self,
        calls: Calls,
        turns: Turns,
        session: str,
        agent: str = "",
        history: Mapping[str, Any] | None = None,
    ) -> None:
        self._calls = calls
        self._turns = turns
        self.session = session
        self._agent = agent
        self._history = history

    def send(
        self,
        text: str,
        *,
        fields: Mapping[str, str] | None = None,
        result: Any = None,
        files: Sequence[Any] = (),
    ) -> TurnRef:
        """Request the next turn, for workers to execute. The first one creates the session."""
        schema = None if result is None else result_type(result).titled
        return self._calls.call(
            sessions.send_to_session,
            self.session,
            text,
            self._agent,
            fields=fields,
            result=schema,
            history=self._history,
            files=files_given(files),
        )

    @overload
    def ask(
        self, text: str, *, result: type[T], timeout: float | None = None, files: Sequence[Any] = ()
    ) -> T: ...

    @overload
    def ask(
        self, text: str, *, result: None = None, timeout: float | None = None, files: Sequence[Any] = ()
    ) -> Delivered: ...

    def ask(
        self, text: str, *, result: Any = None, timeout: float | None = None, files: Sequence[Any] = ()
    ) -> Any:
        """Ask for the next turn, and return what it delivers; with `result`, a value of that type."""
        turn = self.send(text, result=result, files=files)
        delivered = self._turns.result(turn.agent_turn_id, timeout=timeout)
        return delivered if result is None else delivered.value(result)

    def show(self, *, limit: int = 20) -> SessionView:
        """The session as one transcript: its latest turns."""
        return self._calls.call(sessions.show_session, self.session, limit)

    def fork(self, *, after: str = "", name: str = "") -> Session:
        """A new session that continues from a turn of this one; empty: from its last."""
        made = self._calls.call(sessions.fork_session, self.session, after, name)
        return Session(self._calls, self._turns, made.session)

    def delete(self) -> Removed:
        """Delete the session with its turns and all their content."""
        return self._calls.call(sessions.delete_session, self.session)
