"""Every figure of an installation, as Prometheus reads them: the process, the store, and each part that answers."""

from __future__ import annotations

import importlib
import logging
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from afl.kernel.errors import AgentFlowError
from afl.kernel.metrics import Labels, Sample, process_meters, render
from afl.kernel.settings import Settings
from afl.operations.people.tool_calls import ToolCalls
from afl.operations.work.workers import servers
from afl.runtime.monitoring.store_metrics import store_samples
from afl.runtime.persistence import PersistenceAPI
from afl.turns.store.metrics import turn_samples

_log = logging.getLogger(__name__)
_KNOCK_SECONDS = 0.3
_MOST_RUNS = 1_000
_REDIS_PORT = 6379
WAITING, OLDEST = "afl_approvals_waiting", "afl_oldest_approval_seconds"


def metrics(store: PersistenceAPI, settings: Settings) -> str:
    """All of it. A part that cannot be asked is `afl_part_up` 0, and nothing else is missing."""
    parts: dict[str, Callable[[], list[Sample]]] = {
        "store": lambda: [*store_samples(store), *_servers(store)],
        "turns": lambda: _turns(store),
        "fleet": _fleet,
        "messages": lambda: _messages(settings),
    }
    samples: list[Sample] = []
    for part, look in parts.items():
        try:
            samples += look()
        except (AgentFlowError, OSError) as error:
            _log.debug("no figures of %s: %s", part, error)
            samples.append(Sample("afl_part_up", 0, (part,)))
        else:
            samples.append(Sample("afl_part_up", 1, (part,)))
    return process_meters().render() + render(_merged(samples))


def _servers(store: PersistenceAPI) -> list[Sample]:
    counts = Counter(str(each.liveness) for each in servers(store))
    return [Sample("afl_servers", count, (liveness,)) for liveness, count in counts.items()]


def _turns(store: PersistenceAPI) -> list[Sample]:
    """Turns live in the database of an SQL store; others have none."""
    database = getattr(store, "database", None)
    if database is None:
        return []
    asked = ToolCalls.of(store).counts()
    return [
        *turn_samples(database),
        *(Sample(WAITING, each.count, (each.group,)) for each in asked),
        *(Sample(OLDEST, each.oldest_ms / 1000, (each.group,)) for each in asked),
    ]


def _merged(samples: list[Sample]) -> list[Sample]:
    """A group that is asked by workflows and by turns has one figure for both."""
    found: dict[tuple[str, Labels], Sample] = {}
    for each in samples:
        known = found.get((each.name, each.labels))
        if known is not None and each.name == WAITING:
            each = replace(each, value=known.value + each.value)
        elif known is not None and each.name == OLDEST:
            each = replace(each, value=max(known.value, each.value))
        found[each.name, each.labels] = each
    return list(found.values())


def _fleet() -> list[Sample]:
    fleet: Any = importlib.import_module("afl.operations.fleet.fleet")  # needs its extra
    open_statuses = [each for each in fleet.Status if not each.is_final]
    with fleet.connected_soon() as client:
        runs = Counter(
            str(run.status.value) for run in fleet.runs(client, statuses=open_statuses, limit=_MOST_RUNS)
        )
        agents = Counter(agent.alive for agent in fleet.agents(client))
    return [
        *(Sample("afl_fleet_runs", runs.get(each.value, 0), (each.value,)) for each in open_statuses),
        *(Sample("afl_fleet_agents", agents.get(alive, 0), (str(alive).lower(),)) for alive in (True, False)),
    ]


def _messages(settings: Settings) -> list[Sample]:
    coordination: Any = importlib.import_module("afl.operations.message.coordination")
    queues: Any = importlib.import_module("afl.operations.message.queues")
    parsed = urlsplit(settings.redis)
    if parsed.hostname:
        _knock(parsed.hostname, parsed.port or _REDIS_PORT)
    where = coordination.Where(settings.redis)
    found: list[Sample] = []
    for queue in queues.queues(where):
        for state in ("ready", "delayed", "in_flight", "dead"):
            found.append(Sample("afl_queue_messages", getattr(queue, state), (queue.agent, state)))
        found.append(Sample("afl_queue_oldest_seconds", queue.oldest_ready_seconds or 0.0, (queue.agent,)))
    breakers = Counter(each.state for each in coordination.breakers(where))
    return found + [Sample("afl_breakers", count, (state,)) for state, count in breakers.items()]


def _knock(host: str, port: int) -> None:
    """Nobody waits long for a server that is not there."""
    socket.create_connection((host, port), _KNOCK_SECONDS).close()
