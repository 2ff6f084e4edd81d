"""Pages of tasks and of servers."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from starlette.requests import Request

from afl.dashboard.pages.parts import live_page, number_of
from afl.dashboard.rendering import QueryFilter, ask
from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.operations.reason.subjects import UnknownSubject
from afl.operations.reason.why import why
from afl.operations.work.task_queue import TaskLine, list_tasks, show_task
from afl.operations.work.workers import Liveness, Server, servers
from afl.runtime.entities import TaskHold, TaskState

PAGE = 50
STATES = (
    TaskState.PENDING,
    TaskState.RUNNING,
    TaskState.COMPLETED,
    TaskState.FAILED,
    TaskState.CANCELED,
    TaskState.IGNORED,
)
HOLDS = {
    TaskHold.CONCURRENCY: "its Concurrency or Rate allows no more now",
    TaskHold.PAUSED: "its run is paused",
    TaskHold.POISONED: "too many workers died on it",
    TaskHold.TIMEOUT: "its time is up",
    TaskHold.ELSEWHERE: "done elsewhere",
    TaskHold.TIMER: "sleeping",
}
WAITING = HOLDS | {
    "rate": "as many tasks with its key have started as its rate allows",
    "retry": "it failed, and is tried again later",
    "delayed": "it may not be claimed yet",
}


@dataclass(frozen=True)
class TaskFilter(QueryFilter):
    """What the form above the list asks for."""

    state: str = ""
    name: str = ""
    task_list: str = ""
    run: str = ""
    hold: str = ""


async def _one(request: Request) -> dict[str, Any]:
    detail = await ask(request, show_task, request.path_params["task"])
    return {"detail": detail, "task": detail.line, "reason": await ask(request, why, detail.line.task)}


async def _found(request: Request) -> dict[str, Any]:
    wanted = TaskFilter.of(request)
    skip = skipped(request)
    problem = ""
    found: list[TaskLine] = []
    try:
        found = await ask(request, list_tasks, **asdict(wanted), skip=skip, limit=PAGE + 1)
    except InputError as error:  # a run that there is not, or that several begin with
        problem = error_text(error)
    return {
        "tasks": found[:PAGE],
        "wanted": wanted,
        "problem": problem,
        "states": STATES,
        "holds": HOLDS,
        "waiting": WAITING,
        "skip": skip,
        "earlier": f"/tasks?{wanted.query(skip=skip - PAGE)}" if skip else "",
        "later": f"/tasks?{wanted.query(skip=skip + PAGE)}" if len(found) > PAGE else "",
        "source": f"/tasks/fragment/list?{wanted.query(skip=skip)}",
    }


def skipped(request: Request, most: int = 100_000) -> int:
    """How many lines a page leaves out; what is no number leaves out none."""
    return number_of(request.query_params.get("skip", ""), most)


_HELD = 50
_ENDED = (Liveness.STOPPED, Liveness.DEAD)
_ENDED_SHOWN = 20


async def _all(request: Request) -> dict[str, Any]:
    """Those that live or need a look first; of those that ended, the latest."""
    found = await ask(request, servers)
    group = request.query_params.get("group", "")
    groups = sorted({each.group for each in found if each.group})
    chosen = [each for each in found if group in ("", each.group)]
    ended = [each for each in chosen if each.liveness in _ENDED]
    ended.sort(key=lambda each: each.ping_age_ms)
    return {
        "open": [each for each in chosen if each.liveness not in _ENDED],
        "ended": ended[:_ENDED_SHOWN],
        "more_ended": max(0, len(ended) - _ENDED_SHOWN),
        "counts": Counter(each.liveness for each in chosen),
        "groups": groups,
        "group": group,
    }


async def _one_server(request: Request) -> dict[str, Any]:
    wanted = request.path_params["server"]
    found = _named(await ask(request, servers), wanted)
    held = []
    if found.owner:
        held = await ask(request, list_tasks, state=TaskState.RUNNING, owner=found.owner, limit=_HELD)
    return {"server": found, "held": held, "reason": await ask(request, why, found.id)}


def _named(found: list[Server], wanted: str) -> Server:
    server = next((each for each in found if each.id == wanted), None)
    if server is None:
        raise UnknownSubject(f"there is no server {wanted!r} in this store; `afl ps` lists them")
    return server


routes = [
    *live_page("/tasks", "tasks", "list", _found, active="tasks"),
    *live_page("/tasks/{task}", "task", "facts", _one, active="tasks"),
    *live_page("/servers", "servers", "list", _all, active="servers"),
    *live_page("/servers/{server}", "server", "facts", _one_server, active="servers"),
]
