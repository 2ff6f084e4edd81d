"""Why a turn is stuck, in a sentence, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from afl.kernel.database import Database, Transaction
from afl.kernel.presence.base import Life
from afl.operations.parameters import Turn
from afl.operations.spans import span
from afl.operations.turn.turn_store import TurnStore, reading
from afl.operations.turn.turns import find_turn
from afl.turns.model import Head
from afl.turns.resources import get_agent
from afl.turns.statuses import HeadStatus, InboxStatus, TaskStatus, WaitStatus
from afl.turns.store import inbox
from afl.turns.store.approvals import ToolApproval, approvals_of_turn
from afl.turns.store.heads import head_of_turn, read_head, read_waiting
from afl.turns.store.turn_queries import open_messages, queue_ahead, turn_at_a_glance
from afl.turns.tools.questions import INPUT, OUTPUT
from afl.turns.watchdog import DISPATCHED_MS
from afl.turns.worker.metering import BUDGET_EXCEEDED

_MORE_BUDGET = "Give the agent or the session a larger budget, or ask again tomorrow (UTC)."
_NOTHING = "Nothing to do."
_ENDED: dict[str, str] = {
    TaskStatus.SUCCESS: "succeeded",
    TaskStatus.FAILED: "failed",
    TaskStatus.CANCELED: "was canceled",
    TaskStatus.TIMEOUT: "timed out",
    TaskStatus.PARTIAL: "ended with a part of its result",
}
_CHECKED = {INPUT: "what it was asked", OUTPUT: "its answer"}


@dataclass(frozen=True, slots=True)
class TurnReason:
    """Why, in a form that a person can act on. `moves`: it goes on by itself."""

    turn: str
    agent: str
    code: str
    sentence: str
    action: str
    moves: bool


def why(where: TurnStore, name: Turn = "") -> TurnReason:
    """Explain why a turn is stuck, and what to do."""

    with reading(where) as database:
        turn = database.read(lambda tx: find_turn(tx, where.project, name))
        owner = database.read(lambda tx: _owner(tx, turn.project_id, turn.agent_turn_id))
        life = _life(database, owner) if owner else Life.UNKNOWN
        now = database.now()
        return database.read(lambda tx: explain(tx, turn.project_id, turn.agent_turn_id, life, now))


def explain(tx: Transaction, project: str, turn_id: str, life: Life, now: int) -> TurnReason:
    """The reason of a turn that exists; `life` is that of the worker that runs it, if any does."""
    row = inbox.turn_row(tx, project, turn_id)
    glance = turn_at_a_glance(tx, project, turn_id)
    assert row is not None and glance is not None
    head = head_of_turn(tx, project, turn_id)
    place = _Place(tx, project, turn_id, row.agent_id, row.worker_target, now)
    if glance.is_over:
        told = glance.told
        cause = f": {told['error']}" if told.get("error") else ""
        sentence = f"it {_ENDED.get(glance.status, 'ended')}{cause}."
        if told.get("error_code") == BUDGET_EXCEEDED:
            return place.reason("turn-out-of-budget", sentence, _MORE_BUDGET)
        return place.reason(f"turn-{glance.status}", sentence, f"afl turns show {turn_id}")
    if head is None:
        return _not_begun(place, row.status)
    if head.status is HeadStatus.SUSPENDED:
        return _suspended(place, head)
    if head.status is HeadStatus.RUNNING:
        return _running(place, head, life)
    return _dispatched(place, head)


@dataclass(frozen=True, slots=True)
class _Place:
    tx: Transaction
    project: str
    turn: str
    agent: str
    target: str
    now: int

    def reason(self, code: str, sentence: str, action: str, moves: bool = True) -> TurnReason:
        return TurnReason(self.turn, self.agent, code, sentence, action, moves)


def _not_begun(place: _Place, status: InboxStatus) -> TurnReason:
    if status is not InboxStatus.QUEUED:
        return place.reason("turn-refused", f"its message is {status}, and it never started.", _NOTHING)
    agent = get_agent(place.tx, place.project, place.agent)
    if agent is None or agent.status != "active":
        return place.reason(
            "turn-agent-inactive", f"{place.agent} is not active.", "Make the agent active again.", False
        )
    head = read_head(place.tx, place.project, place.agent)
    ahead = queue_ahead(place.tx, place.project, place.agent, place.turn)
    if head is None or head.active_agent_turn_id is None:
        return place.reason("turn-queued", "it is next; a worker's sweep dispatches it.", _serve(place))
    before = f", and {ahead} more before it" if ahead else ""
    return place.reason(
        "turn-queued",
        f"{place.agent} has one turn at a time and is {head.status} in {head.active_agent_turn_id}{before}.",
        f"See why it does not end: afl turns why {head.active_agent_turn_id}",
    )


def _dispatched(place: _Place, head: Head) -> TurnReason:
    waited = place.now - head.updated_at
    sentence = f"it was dispatched {span(waited)} ago, and no worker of {place.target} has taken it."
    return place.reason("turn-dispatched", sentence, _serve(place), moves=waited < DISPATCHED_MS)


def _running(place: _Place, head: Head, life: Life) -> TurnReason:
    left = head.lease_until - place.now
    if life is Life.DEAD or left < 0:
        lost = "has ended" if life is Life.DEAD else "let its lease end"
        sentence = f"the worker that ran it {lost}; another worker of {place.target} takes it over."
        return place.reason("turn-worker-lost", sentence, _serve(place))
    sentence = f"a worker runs step {head.steps} of it, and has {span(left)} of its lease left."
    return place.reason("turn-running", sentence, "Wait, or: afl turns stop " + place.turn)


def _suspended(place: _Place, head: Head) -> TurnReason:
    waits = read_waiting(place.tx, head)
    open_ = [wait for wait in waits if wait.wait_status is WaitStatus.WAITING]
    if not open_:
        messages = open_messages(place.tx, place.project, place.agent)
        found = ", ".join(sorted({str(message.message_type) for message in messages})) or "nothing"
        sentence = (
            f"the calls it waited for have been answered ({found} to be read); no worker has resumed it yet."
        )
        return place.reason("turn-answered", sentence, _serve(place))
    asked = [each for each in approvals_of_turn(place.tx, place.project, place.turn) if each.status == "open"]
    if asked:
        return _unapproved(place, asked, len(open_) - len(asked))
    tools = ", ".join(sorted({wait.tool_name for wait in open_}))
    left = min(wait.deadline for wait in open_) - place.now
    time = f"its time is up in {span(left)}" if left > 0 else "its time is up, which a worker's sweep reports"
    sentence = f"it waits for {len(open_)} of {len(waits)} tool calls ({tools}); {time}."
    return place.reason("turn-waits-for-tool", sentence, "See that whatever answers that tool is running.")


def _unapproved(place: _Place, asked: Sequence[ToolApproval], others: int) -> TurnReason:
    first, more = asked[0], len(asked) - 1
    left = "" if first.deadline is None else f", which expires in {span(max(0, first.deadline - place.now))}"
    rest = f"; {more} more approvals" if more else ""
    rest += f"; {others} other tool calls" if others else ""
    what = _CHECKED.get(first.tool_name, f"a call of {first.tool_name}")
    sentence = f"it waits for someone in {first.group_name} to approve {what}{left}{rest}."
    action = f"Answer it: afl approvals show {first.approval_id}"
    return place.reason("turn-waits-for-approval", sentence, action, moves=False)


def _serve(place: _Place) -> str:
    return f"If no worker serves {place.target}, start one: afl turns worker MODULE"


def _owner(tx: Transaction, project: str, turn_id: str) -> str:
    head = head_of_turn(tx, project, turn_id)
    return head.owner if head is not None else ""


def _life(database: Database, owner: str) -> Life:
    return database.presence.proof(owner.partition("#")[0])
