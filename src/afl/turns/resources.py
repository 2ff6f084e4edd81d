"""The resources of a project: agents (the roster), tools and profiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.codec import decode, encode
from afl.kernel.database import Row, Transaction, queries
from afl.turns.cardbox.boxes import create_box, read_box
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard, json_data
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.protocol.subjects import check_target, check_token, tool_subject
from afl.turns.statuses import AfterExecution, BoxKind, CardType

Q = queries("afl.turns.store", "sql/resources")


@dataclass(frozen=True, slots=True)
class Agent:
    """A row of the roster; the workers of `worker_target` run its turns."""

    project_id: str
    agent_id: str
    profile_box_id: str
    worker_target: str
    tags: Sequence[str] = ()
    display_name: str = ""
    owner_agent_id: str | None = None
    status: str = "active"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> Agent:
        values = {name: row[name] for name in cls.__slots__}
        return cls(**values | {"tags": decode(row["tags"]), "metadata": decode(row["metadata"])})


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the model sees it, and where its commands go; without a subject the worker runs it itself."""

    project_id: str
    tool_name: str
    description: str
    parameters: Mapping[str, Any]
    target_subject: str = ""
    after_execution: AfterExecution = AfterExecution.SUSPEND
    options: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Row) -> Tool:
        values = {name: row[name] for name in cls.__slots__}
        values["after_execution"] = AfterExecution(row["after_execution"])
        return cls(**values | {"parameters": decode(row["parameters"]), "options": decode(row["options"])})


@dataclass(frozen=True, slots=True)
class Profile:
    """A profile: the sys.profile card of its box."""

    project_id: str
    profile_box_id: str
    name: str
    worker_target: str
    profile: Mapping[str, Any]

    @classmethod
    def of(cls, row: Row) -> Profile:
        values = {name: row[name] for name in cls.__slots__}
        return cls(**values | {"profile": decode(row["profile"])})


def put_agent(tx: Transaction, agent: Agent) -> None:
    """Enter an agent into the roster, or change its entry."""
    check_token(agent.project_id, "project_id")
    check_token(agent.agent_id, "agent_id")
    check_target(agent.worker_target)
    tx.run(
        Q.put_agent,
        project=agent.project_id,
        agent=agent.agent_id,
        profile_box=agent.profile_box_id,
        target=agent.worker_target,
        tags=encode(list(agent.tags), what="tags of an agent"),
        display_name=agent.display_name,
        owner=agent.owner_agent_id,
        status=agent.status,
        metadata=encode(dict(agent.metadata), what="metadata of an agent"),
    )


def get_agent(tx: Transaction, project_id: str, agent_id: str) -> Agent | None:
    row = tx.one(Q.get_agent, project=project_id, agent=agent_id)
    return Agent.of(row) if row is not None else None


def list_agents(tx: Transaction, project_id: str) -> list[Agent]:
    return [Agent.of(row) for row in tx.all(Q.list_agents, project=project_id)]


def put_tool(tx: Transaction, tool: Tool) -> None:
    """Enter a tool, or change its entry; a schema that no model could use is refused."""
    check_schema(tool.parameters, f"tool {tool.tool_name!r}")
    if tool.target_subject:
        tool_subject(tool.target_subject, tool.project_id, "public", "agent")
    tx.run(
        Q.put_tool,
        project=tool.project_id,
        tool=tool.tool_name,
        description=tool.description,
        parameters=encode(dict(tool.parameters), what=f"parameters of tool {tool.tool_name}"),
        subject=tool.target_subject,
        after=str(AfterExecution(tool.after_execution)),
        options=encode(dict(tool.options), what=f"options of tool {tool.tool_name}"),
    )


def get_tools(tx: Transaction, project_id: str, names: Iterable[str] | None = None) -> list[Tool]:
    """The tools of a project by name: all, or those of the names given that exist."""
    if names is None:
        rows = tx.all(Q.get_tools, project=project_id)
    else:
        rows = tx.all(Q.get_some_tools, project=project_id, names=list(names))
    return [Tool.of(row) for row in rows]


def put_profile(
    tx: Transaction, project_id: str, profile: Mapping[str, Any], *, author_id: str = "sys.profiles"
) -> Profile:
    """A new profile under its name; agents of an older one of that name keep theirs."""
    check_profile(profile)
    card = NewCard(CardType.SYS_PROFILE, json_data(dict(profile)), author_id)
    save_cards(tx, project_id, [card])
    box = create_box(tx, project_id, BoxKind.PROFILE, [card.card_id])
    tx.run(
        Q.put_profile,
        project=project_id,
        box=box,
        name=profile["name"],
        target=profile.get("worker_target", ""),
        profile=encode(dict(profile), what=f"profile {profile['name']}"),
    )
    return Profile(project_id, box, profile["name"], profile.get("worker_target", ""), dict(profile))


def get_profile(tx: Transaction, project_id: str, profile_box_id: str) -> Profile | None:
    """The profile in a box; also one whose name went to a newer one."""
    row = tx.one(Q.get_profile, project=project_id, box=profile_box_id)
    if row is not None:
        return Profile.of(row)
    cards = [
        card for _, card in read_box(tx, project_id, profile_box_id) if card.type == CardType.SYS_PROFILE
    ]
    if not cards:
        return None
    data = cards[-1].content["data"]
    return Profile(project_id, profile_box_id, data["name"], data.get("worker_target", ""), data)


def find_profile(tx: Transaction, project_id: str, name: str) -> Profile | None:
    """The profile of that name, in small or capital letters."""
    row = tx.one(Q.find_profile, project=project_id, name=name)
    return Profile.of(row) if row is not None else None


def check_profile(profile: Mapping[str, Any]) -> None:
    """What every profile has."""
    if not isinstance(profile.get("name"), str) or not profile["name"]:
        raise _malformed("a profile needs a name")
    if profile.get("worker_target"):
        check_target(profile["worker_target"])
    for name in ("tags", "allowed_tools", "allowed_internal_tools", "must_end_with"):
        value = profile.get(name)
        if value is not None and not _is_words(value):
            raise _malformed(f"profile {profile['name']!r}: {name} must be a list of names")


def check_schema(schema: Mapping[str, Any], where: str) -> None:
    """Whether a JSON schema describes the arguments of a tool: an object with named properties."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type") != "object":
        raise _malformed(f"{where}: parameters.type must be 'object'")
    if not isinstance(properties, Mapping) or not all(
        isinstance(p, (Mapping, bool)) for p in properties.values()
    ):
        raise _malformed(f"{where}: parameters.properties must be a map of schemas")
    if not _is_words(required) or not set(required) <= set(properties):
        raise _malformed(f"{where}: parameters.required must list names of properties")


def _is_words(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(word, str) and word for word in value)


def _malformed(text: str) -> ProtocolViolation:
    return ProtocolViolation(text, ErrorCode.MALFORMED_SCHEMA)
