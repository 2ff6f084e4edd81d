"""Finding things by what one has of them: an id, the beginning of one, a part of a name, or words of a run.

One function per part (fleet_search and message_search have the others), since each part has a server of its own
that may be away; a face asks those it can reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.operations.reason.subjects import find_step
from afl.operations.run.run_list import run_lines
from afl.operations.run.run_status import statuses
from afl.operations.turn.turn_store import TurnStore, reading
from afl.operations.work.workers import servers
from afl.runtime.entities import TaskDefinition, labels
from afl.runtime.persistence import PersistenceAPI, RunFilter, TaskFilter
from afl.runtime.program import paths
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.types import WorkflowId
from afl.turns.resources import list_agents
from afl.turns.store.turn_queries import turn_at_a_glance, turns_named

RECENT = 500  # names are looked for among so many of the newest runs
_EACH = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found. `exact`: the text is its whole id; `run` is that of a step or a task."""

    kind: str
    id: str
    title: str
    state: str = ""
    about: str = ""
    run: str = ""
    exact: bool = False


def search_store(store: PersistenceAPI, text: str) -> list[Hit]:
    """Runs, steps, tasks, servers, schedules, and workflows by name."""
    wanted = text.strip()
    if not wanted:
        return []
    if "/" in wanted:
        return _step(store, wanted)
    return [
        *_runs(store, wanted),
        *_tasks(store, wanted),
        *_workflows(store, wanted),
        *_schedules(store, wanted),
        *_servers(store, wanted),
    ]


def search_turns(where: TurnStore, text: str) -> list[Hit]:
    """Turns by the beginning of their id, agents by a part of their name."""
    wanted = text.strip()

    def look(tx: Transaction) -> list[Hit]:
        return [*_turns(tx, where.project, wanted), *_agents(tx, where.project, wanted)]

    if not wanted:
        return []
    with reading(where) as database:
        return database.read(look)


def _step(store: PersistenceAPI, wanted: str) -> list[Hit]:
    try:
        place = find_step(store, wanted)
    except InputError:  # no such id
        return []
    shown = paths.shown(place.id, WorkflowId(place.run.workflow_id)) or place.run.workflow_name
    state = "" if place.step is None else str(place.step.state)
    run = place.run.workflow_id
    return [Hit("step", place.id, shown, state, f"of {place.run.workflow_name}", run, exact=True)]


def _runs(store: PersistenceAPI, wanted: str) -> Iterator[Hit]:
    found = store.find_runs(RunFilter(prefix=wanted, limit=_EACH))
    found += store.find_runs(RunFilter(text=wanted, limit=_EACH)) if len(found) < _EACH else []
    known = statuses(store, found)
    shown = {run.workflow_id: (run, known[run.workflow_id]) for run in found}
    for line in run_lines(store, list(shown.values())):
        about = line.error or " ".join(filter(None, (*labels(line.tags), line.inputs)))
        title = f"{line.name} ({line.workflow})" if line.name else line.workflow
        yield Hit("run", line.run, title, line.status_words, about, line.run, exact=line.run == wanted)


def _tasks(store: PersistenceAPI, wanted: str) -> Iterator[Hit]:
    found = {task.uuid: task for task in store.find_tasks(TaskFilter(prefix=wanted, limit=_EACH))}
    found |= {task.uuid: task for task in store.find_tasks(TaskFilter(name=wanted, limit=_EACH))}
    for task in found.values():
        yield Hit(
            "task", task.uuid, task.name, task.state, _step_of(task), task.workflow_id, task.uuid == wanted
        )


def _step_of(task: TaskDefinition) -> str:
    return paths.shown(task.step_id, WorkflowId(task.workflow_id)) if task.step_id else ""


def _workflows(store: PersistenceAPI, wanted: str) -> list[Hit]:
    names: dict[str, int] = {}
    for run in store.find_runs(RunFilter(limit=RECENT)):
        names[run.workflow_name] = names.get(run.workflow_name, 0) + 1
    return few(
        Hit("workflow", name, name, about=f"{count} of the newest {RECENT} runs", exact=name == wanted)
        for name, count in names.items()
        if within(wanted, name)
    )


def _schedules(store: PersistenceAPI, wanted: str) -> list[Hit]:
    kept = WorkflowSchedules.of(store)
    return few(
        Hit("schedule", each.name, each.name, "paused" if each.paused else "", f"{each.cron} {each.zone}")
        for each in (kept.all() if kept is not None else ())
        if within(wanted, each.name, each.workflow)
    )


def _servers(store: PersistenceAPI, wanted: str) -> list[Hit]:
    return few(
        Hit("server", each.id, each.title, each.liveness, ", ".join(each.handlers), exact=each.id == wanted)
        for each in servers(store)
        if each.id.startswith(wanted) or within(wanted, each.title, *each.handlers)
    )


def _turns(tx: Transaction, project: str, wanted: str) -> Iterator[Hit]:
    for turn_id, agent in turns_named(tx, project, wanted):
        row = turn_at_a_glance(tx, project, turn_id)
        status = row.status if row is not None else ""
        yield Hit("turn", turn_id, f"turn of {agent}", status, exact=turn_id == wanted)


def _agents(tx: Transaction, project: str, wanted: str) -> list[Hit]:
    return few(
        Hit("agent", each.agent_id, each.display_name or each.agent_id, exact=each.agent_id == wanted)
        for each in list_agents(tx, project)
        if within(wanted, each.agent_id, each.display_name or "")
    )


def within(wanted: str, *names: str) -> bool:
    """Whether one of the names contains the text, in whatever case."""
    return any(wanted.lower() in name.lower() for name in names)


def few(hits: Iterable[Hit]) -> list[Hit]:
    """The first ones: who wants more writes more of the name."""
    return [hit for _, hit in zip(range(_EACH), hits, strict=False)]
