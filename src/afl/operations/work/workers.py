"""Servers: whether they live, what they serve, how busy they are; and who holds the write lock of the store."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.presence import Life
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState, TaskState
from afl.runtime.persistence import PersistenceAPI, TaskFilter


@dataclass(frozen=True)
class StoreLock:
    """`holder` is empty if everybody can write. `remedy` says what to do about the holder."""

    holder: str = ""
    remedy: str = ""
    pid: int = 0


def store_lock(store: PersistenceAPI) -> StoreLock:
    """Which process, if any, keeps all others from writing: it is stopped, or holds the lock for over a second."""
    found = store.write_lock()
    return StoreLock() if found is None else StoreLock(found.words, found.remedy, found.pid)


SILENT_MS = 30_000  # three heartbeats of the default interval
_COUNTED_TASKS = 100_000
_SYSTEM = "afl:"
_BRIDGES = ("agent", "fleet", "message")
_EXECUTE = "afl:execute"  # a runner's: it serves every system task, and evaluates runs


class Liveness(StrEnum):
    """What can be said about a server, from its record, its lock and its last ping."""

    RUNNING = "running"
    STARTING = "starting"
    HANGING = "hanging"  # the process lives, but does not ping
    SILENT = "silent"  # it does not ping, and nobody can see whether it lives
    DEAD = "dead"  # its death is proven
    STOPPING = "stopping"  # it finishes what it works on, and claims no more
    STOPPED = "stopped"  # it said goodbye
    FAILED = "failed"  # it gave up, and said why


@dataclass(frozen=True)
class Server:
    """One server. `load` counts the tasks that its process works on, `capacity` how many it takes; 0: not known.

    A runner `evaluates` any run that is due; other servers only those that their own tasks belong to. `handlers` are
    of facets; the tasks of the system itself, which every runner does, are not among them. `bridges` are the kinds of
    places elsewhere (agent, fleet, message) that it hands work to.
    """

    id: str
    service: str
    name: str
    group: str
    liveness: str
    owner: str
    task_list: str
    handlers: list[str]
    any_event: bool
    evaluates: bool
    load: int
    capacity: int
    handled: int
    not_handled: int
    counts: list[HandledCount]
    started: int
    ping_age_ms: int
    error: dict[str, Any] | None = None
    addresses: list[str] = field(default_factory=list)
    bridges: list[str] = field(default_factory=list)

    @property
    def is_live(self) -> bool:
        """Whether it can be expected to claim work."""
        return self.liveness in (Liveness.RUNNING, Liveness.STARTING)

    @property
    def is_full(self) -> bool:
        """Whether it takes no more work for now."""
        return 0 < self.capacity <= self.load

    @property
    def title(self) -> str:
        """The server in words: `afl-runner on host-7`."""
        return f"{self.service} on {self.name}"

    @property
    def use(self) -> str:
        """Its load in words: `2 of 5`."""
        return f"{self.load} of {self.capacity}" if self.capacity else str(self.load)

    def serves(self, facet: str) -> bool:
        """Whether it has a handler for tasks of this name, on whatever list."""
        if facet.startswith(_SYSTEM):
            return self.evaluates
        short = facet.rpartition(".")[2]
        return self.any_event or facet in self.handlers or short in self.handlers

    def serves_list(self, task_list: str) -> bool:
        """Whether it claims from this list."""
        return self.task_list in ("", task_list)


def servers(store: PersistenceAPI) -> list[Server]:
    """List the servers: whether they are alive, what they serve, how busy they are."""
    running = store.find_tasks(TaskFilter(state=TaskState.RUNNING, limit=_COUNTED_TASKS))
    load = Counter(task.owner for task in running)
    now = store.now()
    return [_server(store, record, load, now) for record in store.get_all_servers()]


def live_servers(store: PersistenceAPI) -> list[Server]:
    """Those that can be expected to claim work, without their load: of tasks that run there may be many."""
    now, idle = store.now(), Counter[str]()
    found = (_server(store, record, idle, now) for record in store.get_all_servers())
    return [server for server in found if server.is_live]


def _server(store: PersistenceAPI, record: ServerDefinition, load: Counter[str], now: int) -> Server:
    """A server's record, with times of the store's clock converted to the local wall clock."""
    age = max(0, now - record.ping_time)
    return Server(
        id=record.uuid,
        service=record.service_name,
        name=record.server_name,
        group=record.server_group,
        liveness=_liveness(store, record, age, busy=bool(load[record.manager])),
        owner=record.manager,
        task_list=record.task_list,
        handlers=[name for name in record.topics or record.handlers if not name.startswith(_SYSTEM)],
        any_event=record.any_event,
        evaluates=_EXECUTE in record.handlers,
        load=load[record.manager] if record.manager else 0,
        capacity=record.capacity,
        handled=sum(count.handled for count in record.handled),
        not_handled=sum(count.not_handled for count in record.handled),
        counts=list(record.handled),
        started=wall_ms() - max(0, now - record.start_time),
        ping_age_ms=age,
        error=record.error,
        addresses=list(record.server_ips),
        bridges=[kind for kind in _BRIDGES if f"{_SYSTEM}{kind}" in record.handlers],
    )


def _liveness(store: PersistenceAPI, record: ServerDefinition, age: int, *, busy: bool) -> Liveness:
    if record.state == ServerState.SHUTDOWN:
        is_finishing = busy and age <= SILENT_MS and store.life(record.manager) is not Life.DEAD
        return Liveness.STOPPING if is_finishing else Liveness.STOPPED
    if record.state == ServerState.ERROR:
        return Liveness.FAILED
    life = store.life(record.manager) if record.manager else Life.UNKNOWN
    if life is Life.DEAD:
        return Liveness.DEAD
    if age > SILENT_MS:
        return Liveness.HANGING if life is Life.ALIVE else Liveness.SILENT
    return Liveness.STARTING if record.state == ServerState.STARTUP else Liveness.RUNNING
