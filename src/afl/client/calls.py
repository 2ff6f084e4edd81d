"""Calls of operations by a thread: what the synchronous client stands on."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from afl.client.joined_start import JoinedStart, result_of
from afl.client.outcome import closed, not_ended
from afl.client.run_waits import AWAY, RETRY_SECONDS, countdown
from afl.client.store_client import OperationsClient, StoreClient
from afl.client.worker import Worker, make_worker
from afl.kernel.errors import (
    AgentFlowError,
    CapabilityError,
    InputError,
    StoreError,
)
from afl.kernel.settings import Settings
from afl.operations.program.submission import Submitted
from afl.operations.reason.reasons import Reason
from afl.operations.reason.why import why
from afl.operations.run.waiting import RunEnd, wait_a_while
from afl.operations.work.service import ServiceOptions
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")
LONG_POLL_SECONDS = 5.0
PAGE_SIZE = 1_000


class Page(Protocol):
    """A part of a stream."""

    @property
    def over(self) -> bool:
        """Whether the run is over, and so nothing more will come."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is there."""


PageT = TypeVar("PageT", bound=Page)


def open_store(client: OperationsClient) -> PersistenceAPI:
    """The store that a client works on; CapabilityError for a client of a server."""
    if not isinstance(client, StoreClient):
        raise CapabilityError("a client of a server has no store at hand; connect to the store itself")
    return client.store


class Calls:
    """Calls operations, and waits for runs, in the calling thread."""

    def __init__(self, client: OperationsClient, settings: Settings) -> None:
        self._opened = client
        self.settings = settings
        self._is_closed = False

    @property
    def _client(self) -> OperationsClient:
        if self._is_closed:
            raise closed()
        return self._opened

    def close(self) -> None:
        """Refuse what is called from now on, and what another thread waits for."""
        self._is_closed = True

    def call(self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The operation's result."""
        try:
            return self._client.call(function, *args, **kwargs)
        except StoreError as error:
            if self._is_closed:  # during the call
                raise closed() from error
            raise

    def joined_start(self, connection: Any, *given: Any) -> JoinedStart:
        """A start as part of the transaction of a connection."""
        return JoinedStart(self._client, connection, *given)

    def start_on(self, connection: Any, start: JoinedStart) -> Submitted:
        """Execute the statements of a start on the connection."""
        statements = start.statements
        try:
            statement = next(statements)
            while True:
                cursor = connection.execute(statement.text, statement.parameters)
                if inspect.isawaitable(cursor):
                    raise InputError(
                        "connection= is asynchronous; use an asynchronous client, or another connection"
                    )
                row = cursor.fetchone() if cursor.description else None
                statement = statements.send(result_of(cursor, row))
        except StopIteration as end:
            return start.submitted(end.value)

    @staticmethod
    def countdown(timeout: float | None) -> Callable[[], float]:
        """How many seconds are left, whenever it is asked."""
        return countdown(timeout)

    def worker(self, settings: Settings, handlers: Any, options: ServiceOptions) -> Worker:
        """A worker that has not started."""
        return make_worker(self._client, settings, handlers, options)

    def open_store(self) -> PersistenceAPI:
        """The store; CapabilityError for a client of a server."""
        return open_store(self._client)

    def poll(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T | None:
        """The result of an operation that waits; None if the store or the server is away for now."""
        try:
            return self.call(function, *args, **kwargs)
        except AWAY:
            time.sleep(RETRY_SECONDS)
            return None

    def next_page(
        self, function: Callable[..., PageT], run: str, after: Any, *, wait: bool, **wanted: Any
    ) -> PageT | None:
        """The next page of a stream of a run; with `wait`, what comes within a while if there is none.

        None if it waits and the store or the server is away for now.
        """
        ask = self.poll if wait else self.call
        return ask(
            function, run, after=after, limit=PAGE_SIZE, wait=LONG_POLL_SECONDS if wait else 0, **wanted
        )

    def end_of(self, run: str, timeout: float | None) -> RunEnd:
        """Where a run stands when it is over; TimeoutError after so many seconds."""
        left = countdown(timeout)
        while True:
            seconds = left()
            end = self.poll(wait_a_while, run, min(seconds, LONG_POLL_SECONDS))
            if end is not None and not end.timed_out:
                return end
            if seconds <= LONG_POLL_SECONDS:
                raise not_ended(run, timeout, None if end is None else self._reason(run))

    def _reason(self, run: str) -> Reason | None:
        """Why a run goes on; None if that cannot be found."""
        try:
            return self.call(why, run)
        except AgentFlowError:
            return None
