"""Turns as an operator sees and changes them: who the agents are, what is asked of them, how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError, NotFoundError
from afl.operations.parameters import Limit, Skip, about
from afl.operations.turn.parameters import Files
from afl.operations.turn.turn_store import TurnStore, reading, with_agents
from afl.turns.agents import Agents
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.model import Head, TurnRef
from afl.turns.resources import get_agent, list_agents
from afl.turns.statuses import HeadStatus, WaitStatus
from afl.turns.store.heads import list_heads, read_head, read_waiting
from afl.turns.store.turn_queries import (
    TurnRow,
    instruction_of,
    latest_turns,
    queued_counts,
    turn_at_a_glance,
    turns_named,
)
from afl.turns.tools.local import near

T = TypeVar("T")
_log = logging.getLogger("afl.turns")
_ASKED = 200  # characters


@dataclass(frozen=True, slots=True)
class AgentLine:
    """An agent on one line. `since` is the moment of its last change; times are milliseconds."""

    agent: str
    name: str
    target: str
    tags: list[str]
    active: bool
    status: str
    turn: str
    epoch: int
    depth: int
    waiting_tools: int
    queued: int
    since: int
    tools: list[str] = field(default_factory=list)  # those that its turn waits for
    session: str = ""  # the one in which it acts for another agent


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn on one line. `status` is where it is, or how it ended."""

    turn: str
    agent: str
    kind: str
    status: str
    over: bool
    created: int
    ended: int | None
    error: str
    error_code: str
    asked: str = ""  # the beginning of what it was asked

    @classmethod
    def of(cls, row: TurnRow, asked: str = "") -> TurnLine:
        return cls(
            row.agent_turn_id,
            row.agent_id,
            row.message_type,
            row.status,
            row.is_over,
            row.created_at,
            row.ended_at,
            str(row.told.get("error", row.last_error or "")),
            str(row.told.get("error_code", "")),
            asked[:_ASKED],
        )


@dataclass(frozen=True, slots=True)
class Stopped:
    """What became of a wish to stop. `late`: it was over before."""

    turn: str
    agent: str
    late: bool


def send(
    where: TurnStore,
    agent: str,
    text: str,
    *,
    fields: Mapping[str, str] | None = None,
    result: Annotated[
        Mapping[str, Any] | None, about("A JSON schema for the result; `title` is its name.")
    ] = None,
    after: str = "",
    correlation: str | None = None,
    channel: str = "public",
    files: Files = None,
) -> TurnRef:
    """Request a turn of an agent, for workers to execute. `after`: it reads what that turn read and wrote."""

    async def work(agents: Agents) -> TurnRef:
        await agents.engine.database.run("read", lambda tx: known_agent(tx, where.project, agent))
        history = await boxes_of(agents, after)
        return await agents.send(
            agent,
            [text, *files] if files else text,
            fields=fields,
            result=result,
            history=history,
            correlation_id=correlation,
            channel=channel,
        )

    return with_agents(where, work)


def wait(where: TurnStore, turn: TurnRef, timeout: float | None = None) -> Delivered | None:
    """What a turn delivers; None when it takes longer than `timeout` seconds."""

    async def work(agents: Agents) -> Delivered | None:
        try:
            async with asyncio.timeout(timeout):
                return await agents.wait(turn)
        except TimeoutError:
            return None

    return with_agents(where, work)


def agents(
    where: TurnStore,
    sessions: Annotated[bool, about("Include those that act for an agent in a session.")] = False,
) -> list[AgentLine]:
    """List the agents of a project: the state of each, and how many messages wait for it."""

    def look(tx: Transaction) -> list[AgentLine]:
        heads = {head.agent_id: head for head in list_heads(tx, where.project)}
        queued = queued_counts(tx, where.project)
        found = []
        for each in list_agents(tx, where.project):
            session = str(each.metadata.get("session", ""))
            if session and not sessions:
                continue
            head = heads.get(each.agent_id)
            found.append(
                AgentLine(
                    each.agent_id,
                    each.display_name,
                    each.worker_target,
                    list(each.tags),
                    each.status == "active",
                    str(head.status) if head else str(HeadStatus.IDLE),
                    (head.active_agent_turn_id or "") if head else "",
                    head.turn_epoch if head else 0,
                    head.active_recursion_depth if head else 0,
                    head.waiting_tool_count if head else 0,
                    queued.get(each.agent_id, 0),
                    head.updated_at if head else 0,
                    _tools(tx, head),
                    session,
                )
            )
        return found

    with reading(where) as database:
        return database.read(look)


def turns(
    where: TurnStore,
    agent: Annotated[str, about("Only turns of this agent.")] = "",
    limit: Limit = 20,
    skip: Skip = 0,
) -> list[TurnLine]:
    """List turns, newest first."""

    def look(tx: Transaction) -> list[TurnLine]:
        if agent:
            known_agent(tx, where.project, agent)
        rows = latest_turns(tx, where.project, agent, limit, skip)
        return [TurnLine.of(row, instruction_of(tx, row, where.project)) for row in rows]

    with reading(where) as database:
        return database.read(look)


def _tools(tx: Transaction, head: Head | None) -> list[str]:
    if head is None or head.status is not HeadStatus.SUSPENDED:
        return []
    open_ = (wait.tool_name for wait in read_waiting(tx, head) if wait.wait_status is WaitStatus.WAITING)
    return sorted(set(open_))


def stop(
    where: TurnStore,
    name: Annotated[str, about("A turn, or the agent whose turn is to end.")],
    reason: Annotated[str, about("Why, for those who read it later.")] = "stopped by an operator",
) -> Stopped:
    """End a turn and everything it started. It ends as canceled, with what there is by then."""

    async def work(agents: Agents) -> Stopped:
        return await stop_named(agents, name, reason)

    return with_agents(where, work)


async def stop_named(agents: Agents, name: str, reason: str) -> Stopped:
    turn = await agents.engine.database.run("read", lambda tx: find_turn(tx, agents.project, name))
    result = await agents.stop(turn, reason)
    if not result.accepted:
        raise InputError(result.error or f"turn {turn.agent_turn_id} cannot be stopped")
    return Stopped(turn.agent_turn_id, turn.agent_id, bool(result.payload.get("late")))


def find_turn(tx: Transaction, project: str, name: str = "") -> TurnRef:
    """A turn by its id or the beginning of it, or by its agent (what that one does, else did last); else the latest."""
    if not name:
        return _latest(tx, project, "")
    head = read_head(tx, project, name)
    if head is not None and head.active_agent_turn_id:
        return _ref(head)
    if get_agent(tx, project, name) is not None:
        return _latest(tx, project, name)
    found = turns_named(tx, project, name)
    if len(found) == 1:
        return TurnRef(project, found[0][1], found[0][0])
    if found:
        raise InputError(f"several turns start with {name!r}: {', '.join(turn for turn, _ in found)} ...")
    raise NotFoundError(
        f"project {project} has no turn and no agent {name!r}; `afl turns list` shows the latest"
    )


def known_agent(tx: Transaction, project: str, agent: str) -> None:
    """NotFoundError for an agent that nobody defined."""
    if get_agent(tx, project, agent) is None:
        names = [each.agent_id for each in list_agents(tx, project) if "session" not in each.metadata]
        raise NotFoundError(f"project {project} has no agent {agent!r}; {near(agent, names)}")


async def boxes_of(agents: Agents, name: str) -> list[str]:
    """The boxes of an earlier turn: what it read, and what it wrote."""
    if not name:
        return []

    def look(tx: Transaction) -> list[str]:
        turn = find_turn(tx, agents.project, name)
        row = turn_at_a_glance(tx, agents.project, turn.agent_turn_id)
        assert row is not None  # it was found a moment ago
        boxes = [row.payload.get("context_box_id"), row.told.get("output_box_id")]
        return [box for box in boxes if box]

    return await agents.engine.database.run("read", look)


def _latest(tx: Transaction, project: str, agent: str) -> TurnRef:
    rows = latest_turns(tx, project, agent, 1)
    if not rows:
        whose = f"agent {agent} of project {project}" if agent else f"project {project}"
        raise InputError(f"{whose} has had no turn yet; `afl turns send AGENT TEXT` requests one")
    return TurnRef(project, rows[0].agent_id, rows[0].agent_turn_id)


def _ref(head: Head) -> TurnRef:
    return TurnRef(head.project_id, head.agent_id, head.active_agent_turn_id or "")
