"""Messages between agents: their queues, dead letters, who is registered, and circuit breakers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from afl.coordination.models import AgentId
from afl.dashboard.live import WATCHERS, BackgroundPoll, Look, Sources, Watcher
from afl.dashboard.pages.parts import MESSAGES, ask_soon, live_page, of_part, text_of
from afl.dashboard.pages.search import SEARCHES
from afl.dashboard.rendering import flash_redirect, page
from afl.kernel.error_text import error_text
from afl.kernel.errors import InputError
from afl.operations.message import coordination, queues
from afl.operations.message.coordination import Action, Where, agent_text
from afl.operations.message.queues import search_messages
from afl.operations.spans import plural

_LETTERS = 100
_ACTIONS: dict[str, Action] = {"open": "open", "close": "close", "reset": "reset"}
_DONE = {"open": "opened: calls through it are refused", "close": "closed", "reset": "reset, with its counts"}


@dataclass(frozen=True)
class Registered:
    """An agent of the registry in words."""

    agent: str
    name: str
    alive: bool
    status: str
    heartbeat: int
    capabilities: list[str]


async def _overview(request: Request) -> dict[str, Any]:
    found = await ask_soon(request, queues.queues)
    return {
        "queues": found,
        "dead": sum(each.dead for each in found),
        "agents": [_registered(each) for each in await ask_soon(request, coordination.agents)],
        "breakers": await ask_soon(request, coordination.breakers),
    }


def _registered(entry: dict[str, Any]) -> Registered:
    snapshot = entry.get("status")
    status = snapshot.get("status") if isinstance(snapshot, dict) else snapshot
    return Registered(
        agent_text(AgentId.model_validate(entry["agent_id"])),
        str(entry.get("name") or ""),
        bool(entry["alive"]),
        "" if status is None else str(status),
        int(entry["last_heartbeat"] * 1000),
        [f"{each['name']} {each['version']}" for each in entry["capabilities"]],
    )


async def _dead(request: Request) -> dict[str, Any]:
    agent = request.query_params.get("agent", "").strip()
    letters, problem = [], ""
    try:
        letters = await ask_soon(request, queues.dead_letters, agent, limit=_LETTERS + 1)
    except InputError as error:  # no name of an agent
        problem = error_text(error)
    return {
        "agent": agent,
        "letters": letters[:_LETTERS],
        "more": len(letters) > _LETTERS,
        "owners": sorted({each.agent for each in letters}),
        "problem": problem,
        "source": f"/messages/dead/fragment/list?agent={quote(agent, safe='')}",
    }


@of_part(MESSAGES)
async def dead_letter(request: Request) -> Response:
    agent, dead_id = request.path_params["agent"], request.path_params["letter"]
    letter = await ask_soon(request, queues.dead_letter, agent, dead_id)
    return await page(request, "messages_letter.html", active="messages", letter=letter)


@of_part(MESSAGES)
async def requeue(request: Request) -> Response:
    """Put one dead letter back in line, or all of an agent."""
    form = await request.form()
    agent, ids = text_of(form, "agent"), _ids(text_of(form, "letter"))
    try:
        moved = await ask_soon(request, queues.requeue, agent, ids)
    except InputError as error:
        return flash_redirect(request, "/messages/dead", str(error), "bad")
    told = f"{plural(moved.letters, 'message')} of {agent} back in line, with no attempt counted."
    return flash_redirect(request, "/messages/dead", told)


@of_part(MESSAGES)
async def purge(request: Request) -> Response:
    """Throw one dead letter away, or all of an agent."""
    form = await request.form()
    agent, ids = text_of(form, "agent"), _ids(text_of(form, "letter"))
    try:
        moved = await ask_soon(request, queues.purge, agent, ids)
    except InputError as error:
        return flash_redirect(request, "/messages/dead", str(error), "bad")
    return flash_redirect(
        request, "/messages/dead", f"{plural(moved.letters, 'message')} of {agent} deleted."
    )


def _ids(letter: str) -> list[str] | None:
    return [letter] if letter else None


@of_part(MESSAGES)
async def change_breaker(request: Request) -> Response:
    """Open, close or reset a circuit breaker in every process."""
    form = await request.form()
    action, name = _ACTIONS.get(request.path_params["action"]), text_of(form, "name")
    if action is None:
        return flash_redirect(
            request, "/messages", "A circuit breaker can be opened, closed or reset.", "bad"
        )
    try:
        await ask_soon(request, coordination.change_breaker, action, name)
    except InputError as error:
        return flash_redirect(request, "/messages", str(error), "bad")
    return flash_redirect(request, "/messages#breakers", f"Circuit breaker {name} is {_DONE[action]}.")


@contextmanager
def _opened(sources: Sources) -> Iterator[Look]:
    where = Where(sources.settings.redis)

    def look(subject: str) -> object:
        """Without times: they pass by themselves, and the browser counts them."""
        waiting = [
            (each.agent, each.ready, each.delayed, each.in_flight, each.dead) for each in queues.queues(where)
        ]
        agents = [
            (str(each["agent_id"]), each["alive"], str(each["status"])) for each in coordination.agents(where)
        ]
        breakers = [
            (each.name, each.state, each.forced, each.total_calls) for each in coordination.breakers(where)
        ]
        return waiting, agents, breakers

    yield look


WATCHERS["messages"] = Watcher(BackgroundPoll(_opened, every_seconds=0.3).see)
SEARCHES["messages"] = search_messages

routes = [
    *live_page("/messages", "messages", "lists", _overview, part=MESSAGES),
    *live_page("/messages/dead", "messages_dead", "list", _dead, part=MESSAGES),
    Route("/messages/dead/requeue", requeue, methods=["POST"]),
    Route("/messages/dead/purge", purge, methods=["POST"]),
    Route("/messages/dead/{agent}/{letter}", dead_letter),
    Route("/messages/breakers/{action}", change_breaker, methods=["POST"]),
]
