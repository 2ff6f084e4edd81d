"""Clients of the operations: the command line, the dashboard, MCP and programs call operations through one.

    with open_client(settings) as client:
        page = client.call(list_runs, state="failed")

A StoreClient calls the function on the store of the settings; an HttpClient sends the call to a dashboard, which has a
StoreClient. Both return the same objects, and both enforce the caller's role.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cached_property
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from afl.kernel.error_text import error_text
from afl.kernel.errors import Forbidden, StoreUnavailable
from afl.kernel.settings import Settings
from afl.operations import audit
from afl.operations.catalog import operation_of
from afl.operations.operation import Needs, Operation
from afl.operations.roles import Caller, Role, operator
from afl.operations.run.run_store import opened
from afl.runtime.persistence import PersistenceAPI

P = ParamSpec("P")
T = TypeVar("T")


class OperationsClient(Protocol):
    """Calls operations on behalf of one caller."""

    def call(self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result; the client provides its first argument."""


class StoreClient:
    """Calls operations on a store. Actions are recorded in the audit log, refused and failed ones too."""

    def __init__(
        self,
        store: PersistenceAPI | Callable[[], PersistenceAPI],
        settings: Settings,
        caller: Caller | None = None,
    ) -> None:
        self._store = store
        self.settings = settings
        self.caller = caller or Caller(operator(), Role.ADMIN, "this machine")

    @cached_property
    def store(self) -> PersistenceAPI:
        """The store; one that is given as a function is opened on first use."""
        return self._store() if callable(self._store) else self._store

    def _open_database(self) -> Any:
        """The database of the store, if that is open by now and the one that the settings name."""
        opened = self.__dict__.get("store") if callable(self._store) else self._store
        database = getattr(opened, "database", None)
        return database if database is not None and database.url == self.settings.store else None

    @property
    def role(self) -> Role:
        """What the caller may do."""
        return self.caller.role

    @property
    def actor(self) -> str:
        """Who asks."""
        return self.caller.name

    def call(self, function: Callable[Concatenate[Any, P], T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """The function's result; Forbidden if it takes another role."""
        operation = operation_of(function)
        bound = operation.signature.bind(None, *args, **kwargs)
        operation.check(bound.arguments)
        subject = str(bound.arguments.get(operation.subject) or "")
        self.check(operation, subject)
        if operation.by:
            bound.arguments[operation.by] = self.caller.name
        try:
            with self._provided(operation.needs) as given:
                bound.arguments[next(iter(bound.arguments))] = given
                result = function(*bound.args, **bound.kwargs)
        except Exception as error:
            # A store that does not answer takes no note either, and would be waited for again.
            if not (operation.needs is Needs.STORE and isinstance(error, StoreUnavailable)):
                self._note(operation, subject, audit.FAILED, error_text(error))
            raise
        self._note(operation, subject or str(getattr(result, operation.subject, "")), audit.DONE)
        return result

    def check(self, operation: Operation, subject: str = "") -> None:
        """Forbidden, and written down, if the role does not allow it."""
        if not self.role.allows(operation.role):
            self._note(operation, subject, audit.REFUSED, f"it takes the role {operation.role}")
            doing = operation.name.replace("_", " ")
            raise Forbidden(f"{self.caller.name} has the role {self.role}; {doing} takes {operation.role}")

    def _note(self, operation: Operation, subject: str, outcome: str, message: str = "") -> None:
        if operation.is_action:
            audit.note(self.store, self.caller, operation.name, subject, outcome, message)

    def _provided(self, needs: Needs) -> AbstractContextManager[Any]:
        if needs is Needs.STORE:
            return nullcontext(self.store)
        if needs is Needs.TURNS:
            turns = importlib.import_module("afl.operations.turn.turn_store")
            return nullcontext(turns.TurnStore(self.settings, self._open_database()))
        if needs is Needs.FLEET:
            fleet = importlib.import_module("afl.operations.fleet.fleet")  # needs its extra
            connection: AbstractContextManager[Any] = fleet.connected_soon()
            return connection
        coordination = importlib.import_module("afl.operations.message.coordination")
        return nullcontext(coordination.Where(self.settings.redis))


@contextmanager
def open_client(settings: Settings, *, create: bool = False) -> Iterator[OperationsClient]:
    """An HttpClient if the settings name a server, else a StoreClient on their store."""
    if settings.server:
        remote = importlib.import_module("afl.client.http_client")  # HTTP takes a while to import
        yield remote.HttpClient(settings.server, settings.token)
        return
    with ExitStack() as stack:
        yield StoreClient(lambda: stack.enter_context(opened(settings, create=create)), settings)
