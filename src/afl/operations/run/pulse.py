"""Whether something changed: a cheap look at what a topic is about, for those who watch it.

Topics: `run:<id>` (its steps, tasks and log), `logs:<id>`, `runs`, `tasks`, `servers`, `schedules`, `approvals`,
`audit`, `badges`. The value of a topic differs when it changed, and means nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from afl.operations.people.tool_calls import ToolCalls
from afl.operations.run.run_summary import badges
from afl.operations.work.timetable import schedules
from afl.runtime.entities import TaskHold
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.topics import (
    CANCEL_TOPIC,
    ELSEWHERE_TOPIC,
    RUNS_TOPIC,
    logs_topic,
    run_topic,
    tasks_topic,
)
from afl.runtime.types import WorkflowId

AUDIT_LOG = "afl:audit"
_PEOPLE = 200


def pulse(store: PersistenceAPI, topic: str) -> object:
    """The value of a topic as of now; None for one that is not known."""
    kind, _, subject = topic.partition(":")
    if kind == "run":
        return store.run_pulse(WorkflowId(subject))
    if kind == "logs":
        return store.log_end(subject)
    look = _LOOKS.get(kind)
    return look(store) if look is not None else None


def notifier_topics(topics: Iterable[str]) -> set[str]:
    """What to listen for, so that most changes of these topics are seen at once."""
    received = {RUNS_TOPIC, CANCEL_TOPIC, ELSEWHERE_TOPIC, tasks_topic("default"), logs_topic(AUDIT_LOG)}
    for topic in topics:
        kind, _, subject = topic.partition(":")
        if kind in ("run", "logs"):
            received |= {run_topic(subject), logs_topic(subject)}
    return received


def _servers(store: PersistenceAPI) -> object:
    """Without the time of the last ping: that one passes every second, and is shown as a clock."""
    return tuple(
        (server.uuid, server.state, str(server.error), sum(count.handled for count in server.handled))
        for server in store.get_all_servers()
    )


def _schedules(store: PersistenceAPI) -> object:
    return tuple(map(repr, schedules(store))) if "schedules" in store.capabilities else ()


def _approvals(store: PersistenceAPI) -> object:
    waiting = store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via="human", limit=_PEOPLE))
    calls = tuple(each.id for each in ToolCalls.of(store).waiting(limit=_PEOPLE))
    return (*((task.uuid, task.via, task.failures) for task in waiting), *calls)


_LOOKS: dict[str, Callable[[PersistenceAPI], object]] = {
    "runs": lambda store: (store.runs_pulse(), store.tasks_pulse()),  # what runs wait for, their tasks tell
    "tasks": lambda store: store.tasks_pulse(),
    "servers": _servers,
    "schedules": _schedules,
    "approvals": _approvals,
    "audit": lambda store: store.log_end(AUDIT_LOG),
    "badges": badges,
}
