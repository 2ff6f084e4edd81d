"""provision_agent: make sure that an agent exists. An existing one is not changed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.orchestration.child import ChildSource, record_identity, worker_target_of
from afl.turns.orchestration.requests import ProvisionAgent
from afl.turns.resources import Agent, Profile, find_profile, get_agent, get_profile, put_agent


def provision(tx: Transaction, source: ChildSource, request: ProvisionAgent) -> dict[str, Any]:
    """The agent; InputError when the policy or the store does not allow it."""
    project = source.head.project_id
    known = get_agent(tx, project, request.agent_id)
    if known is not None:
        if request.action != "ensure":
            raise InputError(f"agent {request.agent_id!r} exists; use the action ensure for that")
        _check_same(tx, known, request)
        return _told(known, created=False)
    agent = _derived(tx, source, request) if request.action == "derive" else _created(tx, source, request)
    _check_policy(tx, source, agent)
    put_agent(tx, agent)
    record_identity(tx, source, request.action, agent.agent_id)
    return _told(agent, created=True)


def _created(tx: Transaction, source: ChildSource, request: ProvisionAgent) -> Agent:
    profile = _profile(tx, source.head.project_id, request)
    if profile is None:
        raise InputError(
            f"provision_agent: there is no profile {request.profile_name or request.profile_box_id!r}"
        )
    return Agent(
        source.head.project_id,
        request.agent_id,
        profile.profile_box_id,
        request.worker_target or worker_target_of(tx, source, profile),
        request.tags if request.tags is not None else [str(tag) for tag in profile.profile.get("tags") or ()],
        request.display_name or profile.name,
        request.owner_agent_id or source.head.agent_id,
        metadata=request.metadata or {},
    )


def _derived(tx: Transaction, source: ChildSource, request: ProvisionAgent) -> Agent:
    origin = get_agent(tx, source.head.project_id, request.derived_from or "")
    if origin is None:
        raise ProtocolViolation(f"there is no agent {request.derived_from!r}", ErrorCode.UNKNOWN_AGENT)
    profile = _profile(tx, source.head.project_id, request)
    return replace(
        origin,
        agent_id=request.agent_id,
        profile_box_id=origin.profile_box_id if profile is None else profile.profile_box_id,
        worker_target=request.worker_target or origin.worker_target,
        tags=origin.tags if request.tags is None else request.tags,
        display_name=request.display_name or origin.display_name,
        owner_agent_id=request.owner_agent_id or source.head.agent_id,
        metadata={**origin.metadata, **(request.metadata or {}), "derived_from": origin.agent_id},
    )


def _profile(tx: Transaction, project: str, request: ProvisionAgent) -> Profile | None:
    if request.profile_box_id is not None:
        return get_profile(tx, project, request.profile_box_id)
    return find_profile(tx, project, request.profile_name) if request.profile_name is not None else None


def _check_policy(tx: Transaction, source: ChildSource, agent: Agent) -> None:
    if source.policy is None:
        raise ProtocolViolation(
            f"agent {source.head.agent_id} has no delegation_policy, so it may make no agents"
        )
    profile = get_profile(tx, agent.project_id, agent.profile_box_id)
    refusal = source.policy.refusal("" if profile is None else profile.name, agent.tags)
    if refusal is not None:
        raise ProtocolViolation(refusal)


def _check_same(tx: Transaction, known: Agent, request: ProvisionAgent) -> None:
    """The identity of an existing agent cannot be changed."""
    profile = _profile(tx, known.project_id, request)
    wanted = {
        "profile": (None if profile is None else profile.profile_box_id, known.profile_box_id),
        "owner_agent_id": (request.owner_agent_id, known.owner_agent_id),
        "worker_target": (request.worker_target, known.worker_target),
        "tags": (request.tags, list(known.tags)),
    }
    for name, (asked, is_now) in wanted.items():
        if asked is not None and asked != is_now:
            raise InputError(
                f"agent {known.agent_id!r} exists with another {name}: {is_now!r}, not {asked!r}"
            )


def _told(agent: Agent, *, created: bool) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "profile_box_id": agent.profile_box_id,
        "worker_target": agent.worker_target,
        "tags": list(agent.tags),
        "created": created,
    }
