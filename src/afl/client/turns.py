# Generated from async_turns.py by `make docs`; change that file.
"""Agents that converse, as the client sees them: `flow.turns`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar, overload

from afl.client.calls import Calls
from afl.client.session import Session
from afl.models.content import File
from afl.models.result_type import result_type
from afl.operations.turn import sessions, turn_files, turn_reasons, turn_view, turns
from afl.operations.turn.sessions import SessionLine
from afl.operations.turn.turn_event_pages import read_turn_events
from afl.operations.turn.turn_reasons import TurnReason
from afl.operations.turn.turn_view import TurnView
from afl.operations.turn.turn_wait import wait
from afl.operations.turn.turns import AgentLine, Stopped, TurnLine
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.content.given import files_given
from afl.turns.model import TurnRef
from afl.turns.turn_events import AgentEvent

T = TypeVar("T")
_LONG_POLL_SECONDS = 2.0


class Turns:
    """Turns of agents: request one, wait for its result, inspect it, end it."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def send(
        self,
        agent: str,
        text: str,
        *,
        fields: Mapping[str, str] | None = None,
        result: Any = None,
        after: str = "",
        channel: str = "public",
        files: Sequence[Any] = (),
    ) -> TurnRef:
        """Request a turn of an agent, for workers to execute. With `after` it reads what that turn read and wrote.

        Its result must have `fields`, or be of the type `result`: a pydantic model, a dataclass, a TypedDict.
        `files` are images, audio and documents for it: a `File`, a Path, or a BinaryContent of Pydantic AI.
        """
        schema = None if result is None else result_type(result).titled
        given = files_given(files)
        return self._calls.call(
            turns.send, agent, text, fields=fields, result=schema, after=after, channel=channel, files=given
        )

    def result(self, turn: str, *, timeout: float | None = None) -> Delivered:
        """What a turn delivers, as soon as it ends; TimeoutError after `timeout` seconds."""
        left = self._calls.countdown(timeout)
        while True:
            seconds = min(left(), _LONG_POLL_SECONDS)
            delivered = self._calls.poll(wait, turn, seconds)
            if delivered is not None:
                return delivered
            if left() <= 0:
                raise TimeoutError(f"turn {turn} had not ended after {timeout} seconds; it continues")

    @overload
    def ask(
        self,
        agent: str,
        text: str,
        *,
        result: type[T],
        timeout: float | None = None,
        files: Sequence[Any] = (),
    ) -> T: ...

    @overload
    def ask(
        self,
        agent: str,
        text: str,
        *,
        result: None = None,
        timeout: float | None = None,
        files: Sequence[Any] = (),
    ) -> Delivered: ...

    def ask(
        self,
        agent: str,
        text: str,
        *,
        result: Any = None,
        timeout: float | None = None,
        files: Sequence[Any] = (),
    ) -> Any:
        """Ask an agent for a turn, and return what it delivers; with `result`, a value of that type.

        TurnFailed if the turn does not produce one.
        """
        turn = self.send(agent, text, result=result, files=files)
        delivered = self.result(turn.agent_turn_id, timeout=timeout)
        return delivered if result is None else delivered.value(result)

    def stream(self, agent: str, text: str, *, result: Any = None, after: str = "") -> Iterator[AgentEvent]:
        """Request a turn of an agent, as `send` does, and yield its events, as `events` does.

        The turn continues even if nobody reads on.
        """
        turn = self.send(agent, text, result=result, after=after)
        for event in self.events(turn.agent_turn_id):
            yield event

    def events(self, turn: str, *, after: str = "") -> Iterator[AgentEvent]:
        """What happens in a turn of any worker: its steps, what its model says, its calls and results, its end.

        From its beginning, or from the `position` of an event that was seen before, until the turn is over. Reading
        on from a position misses nothing and repeats nothing.
        """
        while True:
            page = self._calls.poll(read_turn_events, turn, after=after, wait=_LONG_POLL_SECONDS)
            if page is None:
                continue
            for event in page.events:
                yield event
            if page.over:
                return
            after = page.position

    def session(self, session: str, agent: str = "", *, history: Mapping[str, Any] | None = None) -> Session:
        """A conversation with an id that you choose; its first turn creates it, which requires the agent.

        `history` says how much of it each turn reads: `last` turns, `tokens`, and whether there is a `summary`.
        """
        return Session(self._calls, self, session, agent, history)

    def sessions(self, *, agent: str = "", limit: int = 20) -> list[SessionLine]:
        """The sessions, those with the newest turns first."""
        return self._calls.call(sessions.list_sessions, agent, limit)

    def show(self, turn: str) -> TurnView:
        """A turn as a transcript."""
        return self._calls.call(turn_view.show, turn)

    def file(self, card: str, number: int = 0) -> File:
        """A file of a card, which the transcript of a turn shows: one that was given, or that a tool returned."""
        return self._calls.call(turn_files.read_file, card, number)

    def why(self, turn: str) -> TurnReason:
        """Why a turn is stuck, and what to do about it."""
        return self._calls.call(turn_reasons.why, turn)

    def stop(self, turn: str, reason: str = "stopped by an operator") -> Stopped:
        """End a turn and everything it started."""
        return self._calls.call(turns.stop, turn, reason)

    def agents(self) -> list[AgentLine]:
        """The agents of the project: the state of each, and how many messages wait for it."""
        return self._calls.call(turns.agents)

    def list(self, *, agent: str = "", limit: int = 20) -> list[TurnLine]:
        """The newest turns, newest first."""
        return self._calls.call(turns.turns, agent, limit)
