"""A worker's entry in the registry of servers: what it is, that it lives, and what it has done."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterable

from afl.kernel.bounds import check_name
from afl.kernel.errors import AgentFlowError
from afl.kernel.joinable_thread import JoinableThread
from afl.kernel.presence import Life
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.stores.masking import error_record
from afl.runtime.worker.results import TaskResult

_log = logging.getLogger(__name__)


class Registration:
    """The server record of one worker: STARTUP, RUNNING, then SHUTDOWN or ERROR; a thread keeps its ping fresh.

    The last state begins when the worker claims no more: the ping stays fresh while it finishes what it has.
    """

    def __init__(self, store: PersistenceAPI, server: ServerDefinition, heartbeat_ms: int) -> None:
        self.server = server
        self._store = store
        self._heartbeat = heartbeat_ms / 1000
        self._counts: dict[str, HandledCount] = {}
        self._ended = threading.Event()
        self._due = threading.Event()  # the next heartbeat, before its time
        self._thread: JoinableThread | None = None

    def enter(self) -> None:
        """Register, first as STARTUP."""
        server = self.server
        server.start_time = server.ping_time = self._store.now()
        server.server_ips = _addresses()
        server.manager = self._store.owner_id
        server.state = ServerState.STARTUP
        self._store.save_server(server)
        self._warn_of_namesakes()

    def running(self) -> None:
        """The worker works: RUNNING, with a heartbeat from now on."""
        self.server.state = ServerState.RUNNING
        self._save()
        self._ended.clear()
        self._due.clear()
        self._thread = JoinableThread(self._beat, "afl-heartbeat")
        self._thread.start()

    def stopping(self, error: BaseException | None = None) -> None:
        """The worker claims no more: SHUTDOWN, or ERROR with what ended it. The heartbeat stores it, at once."""
        if error is not None:
            self.server.error = error_record(str(error) or type(error).__name__, type(error).__name__)
        self.server.state = ServerState.SHUTDOWN if error is None else ServerState.ERROR
        self._due.set()

    def leave(self, error: BaseException | None = None) -> None:
        """Deregister: the worker has finished what it had, too."""
        self._ended.set()
        self.stopping(error)
        if self._thread is not None:
            self._thread.join()
        try:
            self._save()
        except AgentFlowError as problem:  # it counts as dead all the same, once its sign of life is gone
            _log.warning("server %s could not sign off: %s", self.server.uuid, problem)

    def stored(self, result: TaskResult, problem: str | None) -> None:
        """Count a task whose result is stored."""
        self.handled(result.task.name, problem is None)

    def handled(self, name: str, good: bool) -> None:
        """Count one task; it shows with the next heartbeat."""
        count = self._counts.setdefault(name, HandledCount(name))
        if good:
            count.handled += 1
        else:
            count.not_handled += 1

    @property
    def counts(self) -> dict[str, HandledCount]:
        """What was handled, by name."""
        return dict(self._counts)

    def _save(self) -> None:
        # By the store's clock: those who compare it do not share this machine's.
        self.server.ping_time = self._store.now()
        self.server.handled = list(self._counts.values())
        self._store.save_server(self.server)

    def _beat(self) -> None:
        while True:
            self._due.wait(self._heartbeat)
            if self._ended.is_set():
                return
            self._due.clear()
            try:
                self._save()
            except Exception as error:  # a server that is silent counts as gone, whatever the reason
                known = isinstance(error, AgentFlowError)
                _log.warning(
                    "heartbeat of server %s failed, trying again: %s",
                    self.server.uuid,
                    error,
                    exc_info=not known,
                )

    def _warn_of_namesakes(self) -> None:
        mine = self.server
        if mine.server_name == socket.gethostname():
            return  # nobody chose it: several on one host are as usual
        for other in self._store.get_servers_by_state(ServerState.RUNNING):
            same = (other.server_name, other.service_name) == (mine.server_name, mine.service_name)
            if same and other.uuid != mine.uuid and self._store.life(other.manager) is Life.ALIVE:
                _log.warning(
                    "another %s named %s runs already (%s); both work, but `afl ps` shows them under one name: "
                    "give one of them another server_name",
                    mine.service_name,
                    mine.server_name,
                    self._store.describe(other.manager),
                )
                return


def describe_server(
    uuid: str, *, group: str, service: str, name: str, handlers: Iterable[str], topics: Iterable[str]
) -> ServerDefinition:
    """A server record that is not registered yet."""
    return ServerDefinition(
        uuid=uuid,
        server_group=check_name(group, "the group of the server"),
        service_name=check_name(service, "the name of the service"),
        server_name=check_name(name or socket.gethostname(), "the name of the server"),
        handlers=list(handlers),
        topics=list(topics),
    )


def _addresses() -> list[str]:
    try:
        return sorted({str(info[4][0]) for info in socket.getaddrinfo(socket.gethostname(), None)})
    except OSError:
        return []
