"""A turn that another turn enqueues: its agent, the cards it reads, and its output box."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from afl.kernel.codec import encode
from afl.kernel.database import Transaction, queries
from afl.kernel.errors import InputError
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.boxes import create_box, read_box
from afl.turns.cardbox.card_store import save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext, context_of_head
from afl.turns.errors import ErrorCode, ProtocolViolation
from afl.turns.intents import SpawnIntent
from afl.turns.model import Head, L0Result, Limits
from afl.turns.orchestration.requests import Assignment, DelegationPolicy
from afl.turns.primitives.enqueue import enqueue
from afl.turns.protocol.ids import new_id
from afl.turns.resources import Agent, find_profile, get_agent, get_profile, put_agent
from afl.turns.resources import Profile as ProfileRow
from afl.turns.statuses import BoxKind, CardType, DepthPolicy
from afl.turns.store.edges import Q as HEADS
from afl.turns.store.heads import read_head

Q = queries("afl.turns.orchestration")


@dataclass(frozen=True, slots=True)
class ChildSource:
    """The tool call that enqueues it: its turn, and the delegation policy of its agent."""

    head: Head
    policy: DelegationPolicy | None
    step_id: str
    tool_call_id: str
    limits: Limits

    @property
    def output_box_id(self) -> str:
        return self.head.output_box_id or ""

    @property
    def context(self) -> TurnContext:
        return replace(context_of_head(self.head, self.step_id), tool_call_id=self.tool_call_id)


@dataclass(frozen=True, slots=True)
class Child:
    """A child that was checked; nothing of it is written yet."""

    agent_id: str
    agent: Agent | None  # to be entered into the roster
    derived_from: str | None
    profile_box_id: str
    inherited: Sequence[str]
    instruction: str
    output_box_id: str | None = None
    context_box_id: str = ""


def checked_child(
    tx: Transaction, source: ChildSource, assignment: Assignment, extra: Sequence[str] = ()
) -> Child:
    """The child of an assignment; InputError when the policy or the store does not allow it."""
    if source.head.active_recursion_depth + 1 >= source.limits.max_depth:
        raise ProtocolViolation(
            f"this turn is {source.head.active_recursion_depth} deep; the limit is {source.limits.max_depth}",
            ErrorCode.RECURSION_DEPTH_EXCEEDED,
        )
    if source.policy is None:
        raise ProtocolViolation(
            f"agent {source.head.agent_id} has no delegation_policy, so it may not delegate"
        )
    if not assignment.instruction:
        raise InputError("the instruction is empty")
    child = (
        _new(tx, source, assignment)
        if assignment.target_strategy == "new"
        else _known(tx, source, assignment)
    )
    boxes = [*([assignment.context_box_id] if assignment.context_box_id else []), *extra]
    return replace(child, inherited=[*_inherited(tx, source, boxes), *child.inherited])


def assign(
    tx: Transaction, source: ChildSource, child: Child, *, correlation_id: str, policy: DepthPolicy
) -> tuple[Child, L0Result]:
    """Write the child and enqueue its turn; the child with its boxes."""
    project = source.head.project_id
    if child.agent is not None:
        put_agent(tx, child.agent)
        record_identity(tx, source, "derive" if child.derived_from else "create", child.agent_id)
    given = _given(source, child.instruction)
    save_cards(tx, project, given, source.limits)
    fresh = list(dict.fromkeys([*child.inherited, *(card.card_id for card in given)]))
    made = replace(
        child,
        context_box_id=create_box(tx, project, BoxKind.CONTEXT, fresh),
        output_box_id=child.output_box_id or create_box(tx, project, BoxKind.OUTPUT),
    )
    payload = {
        "profile_box_id": made.profile_box_id,
        "context_box_id": made.context_box_id,
        "output_box_id": made.output_box_id,
    }
    intent = SpawnIntent(made.agent_id, payload, correlation_id=correlation_id, depth_policy=policy)
    return made, enqueue(tx, source.context, intent, source.limits)


def record_identity(tx: Transaction, source: ChildSource, action: str, agent_id: str) -> None:
    """Record which agent created which."""
    context = source.context
    tx.run(
        Q.add_identity,
        edge=new_id("edge"),
        project=context.project_id,
        channel=context.channel_id,
        action=action,
        source=context.agent_id,
        target=agent_id,
        trace=context.trace_id,
        step=source.step_id,
        metadata=encode({"tool_call_id": source.tool_call_id}),
    )


def worker_target_of(tx: Transaction, source: ChildSource, profile: ProfileRow) -> str:
    """The worker target of a new agent: that of its profile, else that of the caller."""
    if profile.worker_target:
        return profile.worker_target
    own = get_agent(tx, source.head.project_id, source.head.agent_id)
    return own.worker_target if own is not None else "agents"


def _new(tx: Transaction, source: ChildSource, assignment: Assignment) -> Child:
    profile = find_profile(tx, source.head.project_id, assignment.target_ref)
    if profile is None:
        raise InputError(f"there is no profile {assignment.target_ref!r}")
    tags = [str(tag) for tag in profile.profile.get("tags") or ()]
    _check_policy(source, profile.name, tags)
    agent = Agent(
        source.head.project_id,
        new_id("agent"),
        profile.profile_box_id,
        worker_target_of(tx, source, profile),
        tags,
        profile.name,
        source.head.agent_id,
    )
    return Child(agent.agent_id, agent, None, profile.profile_box_id, (), assignment.instruction)


def _known(tx: Transaction, source: ChildSource, assignment: Assignment) -> Child:
    """An existing agent with its last output box (reuse), or a copy of it that reads that box (clone)."""
    project = source.head.project_id
    agent = get_agent(tx, project, assignment.target_ref)
    if agent is None or agent.status != "active":
        raise ProtocolViolation(
            f"there is no active agent {assignment.target_ref!r}", ErrorCode.UNKNOWN_AGENT
        )
    profile = get_profile(tx, project, agent.profile_box_id)
    _check_policy(source, "" if profile is None else profile.name, agent.tags)
    output = _output_of(tx, project, agent.agent_id)
    if assignment.target_strategy == "reuse":
        return Child(agent.agent_id, None, None, agent.profile_box_id, (), assignment.instruction, output)
    copy = replace(agent, agent_id=new_id("agent"), owner_agent_id=source.head.agent_id)
    history = [] if output is None else [card.card_id for _, card in read_box(tx, project, output)]
    return Child(copy.agent_id, copy, agent.agent_id, agent.profile_box_id, history, assignment.instruction)


def _check_policy(source: ChildSource, profile: str, tags: Sequence[str]) -> None:
    refusal = source.policy.refusal(profile, tags) if source.policy is not None else "there is no policy"
    if refusal is not None:
        raise ProtocolViolation(refusal)


def _output_of(tx: Transaction, project: str, agent_id: str) -> str | None:
    head = read_head(tx, project, agent_id)
    if head is not None and head.output_box_id is not None:
        return head.output_box_id
    row = tx.one(HEADS.pointers, project=project, agent=agent_id)
    box: str | None = row["last_output_box_id"] if row is not None else None
    return box


def _inherited(tx: Transaction, source: ChildSource, boxes: Sequence[str]) -> list[str]:
    """The cards of boxes that are the caller's own; others are refused."""
    if not boxes:
        return []
    head = source.head
    row = tx.one(HEADS.pointers, project=head.project_id, agent=head.agent_id)
    own = {head.context_box_id, head.output_box_id, head.profile_box_id}
    own |= {row["memory_context_box_id"], row["last_output_box_id"]} if row is not None else set()
    found: list[str] = []
    for box in boxes:
        if box not in own:
            raise ProtocolViolation(
                f"box {box!r} is none of this agent's own; only those can be passed on", ErrorCode.UNKNOWN_BOX
            )
        found += [card.card_id for _, card in read_box(tx, head.project_id, box)]
    return found


def _given(source: ChildSource, instruction: str) -> list[NewCard]:
    """The cards with the instruction and the pointer to the parent."""
    author = source.head.agent_id
    pointer = {
        "parent_agent_id": author,
        "parent_agent_turn_id": source.head.active_agent_turn_id,
        "parent_step_id": source.step_id,
        "tool_call_id": source.tool_call_id,
    }
    return [
        NewCard(CardType.TASK_INSTRUCTION, contents.text(instruction), author),
        NewCard(CardType.PARENT_POINTER, contents.json_data(pointer), author),
    ]
